#include "launcher/core/setup_history.h"

#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kTextBytesMax = 1024;

std::string text_of(const boost::json::object& event, std::string_view key) {
  const auto* value = event.if_contains(key);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : std::string();
}

}  // namespace

boost::json::object run_setup_record() { return {{"event", "setup_done"}}; }

boost::json::object node_setup_record(const std::string& node, const std::string& life) {
  return {{"event", "node_setup_done"},
          {"node", utf8_text(node, kTextBytesMax)},
          {"life", utf8_text(life, kTextBytesMax)}};
}

void SetupHistory::add(const boost::json::object& event) {
  const std::string what = text_of(event, "event");
  if (what == "setup_done") run_done_ = true;
  if (what != "node_setup_done") return;
  const std::string node = text_of(event, "node");
  if (nodes_.size() < kNodesMax || nodes_.contains(node)) nodes_[node] = text_of(event, "life");
}

std::string SetupHistory::life_of(const std::string& node) const {
  const auto found = nodes_.find(utf8_text(node, kTextBytesMax));
  return found == nodes_.end() ? "" : found->second;
}

}  // namespace train
