#include "launcher/cluster/links/file_relay.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/storage/checkpoint_writer.h"
#include "lib/transfer/file_server.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

// A request older than this was lost with its link.
constexpr Duration kAnswerMax = std::chrono::seconds(60);

}  // namespace

void FileRelay::ask(const ReadFile& request, Reply reply) {
  const TimePoint now = clock_.now();
  std::erase_if(asked_, [&](const auto& entry) { return entry.second.at + kAnswerMax < now; });
  ask_next({request, std::move(reply), {}, {}, now});
}

void FileRelay::ask_next(Asked asked) {
  const auto node = next(asked);
  if (!node) return give_up(asked);
  asked.node = *node;
  asked.tried.insert(*node);
  ReadFile request = asked.request;
  request.id = ++last_id_;
  asked_[request.id] = std::move(asked);
  links_.send(*node, encode(request));
}

/// Return the node to ask next. The nodes that should have the file share the work. After them, any
/// other node may be asked, since one that has restored the file has it too.
std::optional<NodeId> FileRelay::next(const Asked& asked) const {
  std::vector<NodeId> holders, others;
  const auto found = holders_.find(asked.request.folder);
  for (NodeId node : links_.up()) {
    if (asked.tried.count(node) != 0) continue;
    const bool holds = found != holders_.end() &&
                       std::find(found->second.begin(), found->second.end(), links_.name(node)) !=
                           found->second.end();
    (holds ? holders : others).push_back(node);
  }
  if (!holders.empty()) return holders[last_id_ % holders.size()];
  if (!others.empty()) return others.front();
  return std::nullopt;
}

void FileRelay::give_up(const Asked& asked) {
  const std::string& location = asked.request.folder;
  if (may_come_back(location)) return;
  const auto found = holders_.find(location);
  const std::string where =
      found == holders_.end() ? ""
                              : fmt::format("; it was kept on {}", fmt::join(found->second, ", "));
  asked.reply(FileServer::refusal(
      asked.request, Error{Errc::Corrupt, fmt::format("'{}' of {} is not on any connected node{}",
                                                      asked.request.path, location, where)}));
}

bool FileRelay::may_come_back(const std::string& location) {
  const auto found = holders_.find(location);
  if (found == holders_.end()) return false;
  std::vector<std::string> away = found->second;
  for (NodeId node : links_.up()) std::erase(away, links_.name(node));
  if (away.empty()) return false;
  const TimePoint now = clock_.now();
  const auto [missed, first] = missed_.try_emplace(location, now);
  if (first)
    messages_.phase(
        fmt::format("waiting {} s for {}: no other node has the files of a checkpoint",
                    std::chrono::duration_cast<std::chrono::seconds>(kHoldersAwayMax).count(),
                    fmt::join(away, ", ")));
  return now < missed->second + kHoldersAwayMax;
}

void FileRelay::answered(NodeId node, FileBytes answer) {
  const auto found = asked_.find(answer.id);
  if (found == asked_.end() || found->second.node != node) return;
  Asked asked = std::move(found->second);
  asked_.erase(found);
  if (!answer.error.empty()) return ask_next(std::move(asked));
  missed_.erase(asked.request.folder);
  answer.id = asked.request.id;
  asked.reply(answer);
}

void FileRelay::lost(NodeId node) {
  std::vector<Asked> again;
  for (auto it = asked_.begin(); it != asked_.end();) {
    if (it->second.node != node) {
      ++it;
      continue;
    }
    again.push_back(std::move(it->second));
    it = asked_.erase(it);
  }
  for (Asked& asked : again) ask_next(std::move(asked));
}

void FileRelay::forget(Attempt up_to) {
  const auto is_old = [&](const auto& entry) {
    const auto made = parse_shard_location(entry.first);
    return !made || made->attempt <= up_to;
  };
  std::erase_if(holders_, is_old);
  std::erase_if(missed_, is_old);
}

}  // namespace train
