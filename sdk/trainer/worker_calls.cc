#include "sdk/trainer/worker_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sdk/trainer/run_folder.h"

namespace train::trainer {

std::string call_line(std::int64_t id, const std::string& name, const Value& argument,
                      const CallOptions& options) {
  constexpr std::size_t kLineBytesMax = 1u << 20;  // train-run reads no longer ones
  Dict command{{"command", "call"},
               {"id", id},
               {"name", name},
               {"argument", argument},
               {"within_ms", static_cast<std::int64_t>(options.timeout.count())}};
  if (!options.ranks.empty()) command["ranks"] = List(options.ranks.begin(), options.ranks.end());
  std::string line = to_json(command);
  if (line.size() >= kLineBytesMax)
    throw Failure("invalid_argument",
                  fmt::format("call of {}: the argument has {} bytes of JSON, and may have 524288",
                              name, line.size()));
  return line + "\n";
}

bool CallAnswers::take(const Dict& event) {
  const std::string kind = text_of(event, "event").value_or("");
  if ((kind != "answer" && kind != "called") || number_of(event, "id") != id_) return false;
  const auto error = text_of(event, "error");
  if (kind == "called") {
    error_ = error.value_or("");
    if (const auto first = number_of(event, "first_thrown"))
      first_thrown_ = static_cast<int>(*first);
    complete_ = true;
    return true;
  }
  const int rank = static_cast<int>(number_of(event, "rank").value_or(-1));
  const auto result = event.find("result");
  if (error) {
    errors_[rank] = *error;
    kinds_[rank] = text_of(event, "kind").value_or("");
  } else {
    results_[rank] = result == event.end() ? Value() : result->second;
  }
  return true;
}

bool CallAnswers::has_lost() const {
  return std::any_of(kinds_.begin(), kinds_.end(),
                     [](const auto& kind) { return kind.second == "lost"; });
}

bool CallAnswers::has_thrown(int rank) const {
  const auto kind = kinds_.find(rank);
  return kind != kinds_.end() && kind->second == "thrown";
}

std::map<int, Value> CallAnswers::results(const std::string& name, bool ends_worker) && {
  if (errors_.empty() && error_.empty()) return std::move(results_);
  std::string text = fmt::format("call of {}: {}", name, error_);
  if (!errors_.empty()) {
    auto shown = first_thrown_ && ends_worker ? errors_.find(*first_thrown_) : errors_.begin();
    if (shown == errors_.end()) shown = errors_.begin();
    // Of ranks with the same error, always the same one is named.
    shown = std::find_if(errors_.begin(), errors_.end(),
                         [&](const auto& one) { return one.second == shown->second; });
    text += fmt::format("rank {}: {}", shown->first, shown->second);
    if (errors_.size() > 1) text += fmt::format(" (and {} more ranks)", errors_.size() - 1);
  }
  throw CallFailed(text, std::move(results_), std::move(errors_), std::move(kinds_));
}

}  // namespace train::trainer
