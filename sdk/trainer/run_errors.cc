#include "sdk/trainer/run_errors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "sdk/trainer/run_folder.h"

namespace train::trainer {
namespace {

RankFailure rank_failure(const Dict& rank) {
  RankFailure failure;
  failure.rank = static_cast<int>(number_of(rank, "rank").value_or(-1));
  failure.node = text_of(rank, "node").value_or("");
  failure.kind = text_of(rank, "kind").value_or("");
  failure.cause = text_of(rank, "cause").value_or("");
  if (const auto code = number_of(rank, "exit_code")) failure.exit_code = static_cast<int>(*code);
  failure.signal = text_of(rank, "signal").value_or("");
  if (const auto error = rank.find("error"); error != rank.end() && error->second.is_dict()) {
    const Dict thrown = error->second.as<Dict>();
    failure.type = text_of(thrown, "type").value_or("");
    failure.what = text_of(thrown, "what").value_or("");
    failure.stack = text_of(thrown, "stack").value_or("");
  }
  return failure;
}

}  // namespace

AttemptFailure attempt_failure(const Dict& exception) {
  AttemptFailure failure;
  failure.attempt = static_cast<int>(number_of(exception, "attempt").value_or(0));
  failure.cause = text_of(exception, "cause").value_or("");
  failure.omitted = static_cast<int>(number_of(exception, "omitted").value_or(0));
  for (const Value& rank : list_of(exception, "ranks")) {
    if (!rank.is_dict()) continue;
    RankFailure one = rank_failure(rank.as<Dict>());
    const int number = one.rank;
    failure.ranks.emplace(number, std::move(one));
  }
  return failure;
}

int root_rank(const Dict& exception) {
  const List ranks = list_of(exception, "ranks");
  if (ranks.empty() || !ranks.front().is_dict()) return kNoRank;
  return static_cast<int>(number_of(ranks.front().as<Dict>(), "rank").value_or(kNoRank));
}

void throw_error_of(RunResult result, const std::string& text,
                    std::optional<AttemptFailure> failure) {
  const int code = result.exit_code;
  if (result.outcome == "interrupted" || result.outcome == "preempted")
    throw PreemptionError("the run was stopped: " + text, std::move(result));
  if (result.outcome == "failed" && failure) {
    const bool hung = std::any_of(failure->ranks.begin(), failure->ranks.end(),
                                  [](const auto& rank) { return rank.second.kind == "hung"; });
    if (hung) throw HangError(text, std::move(result), std::move(*failure));
    throw WorkerGroupError(text, std::move(result), std::move(*failure));
  }
  if (result.outcome == "failed")
    throw WorkerGroupError(text, std::move(result), {.attempt = 0, .cause = text, .ranks = {}});
  constexpr int kUsage = 2, kBadSpec = 78;
  constexpr std::array kOfCluster{66, 69, 73, 76, 77};
  if (code == kUsage || code == kBadSpec) throw SpecError(text, std::move(result));
  if (std::find(kOfCluster.begin(), kOfCluster.end(), code) != kOfCluster.end())
    throw ClusterError(text, std::move(result));
  throw ControllerError(text, std::move(result));
}

}  // namespace train::trainer
