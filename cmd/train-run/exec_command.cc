// exec: has the train-run that controls a run call a function that its workers' programs serve, and
// prints what they answer.
#include <fmt/format.h>

#include <boost/json.hpp>
#include <chrono>

#include "cmd/train-run/ask_run.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "lib/base/print.h"
#include "lib/yaml/scalar.h"

namespace train {
namespace {

constexpr auto kAnswerWithin = std::chrono::seconds(10);  // after the call's own time
constexpr int kSomeFailed = 1;

Error wrong(std::string message, std::string hint) {
  return {Errc::InvalidArgument, std::move(message), std::move(hint)};
}

Result<WorkerCall> call_of(const ExecCommand& options) {
  WorkerCall call{.name = options.function};
  if (options.argument) {
    auto value = checked_call_value(*options.argument);
    if (!value)
      return wrong("the argument " + value.error().message,
                   "write numbers as they are, and texts in quotes: '\"text\"'");
    call.argument = std::move(*value);
  }
  TRY(call.ranks, named_ranks(options.ranks));
  if (!options.timeout.empty()) {
    const auto within = yaml::parse_duration(options.timeout);
    if (!within || *within < milliseconds(1) || *within > kCallTimeMax)
      return wrong(fmt::format("--timeout {} is no time up to 24h", options.timeout),
                   "write 30s, or 5m");
    call.within = *within;
  }
  return parse_worker_call(to_json(call));  // the launcher would refuse a wrong name, too
}

int show(const CallAnswers& answers, const ExecCommand& options, const RunFolder& folder) {
  const bool one = answers.ranks.size() == 1;
  bool failed = false;
  if (options.json) print_out("{}\n", Lines{boost::json::serialize(to_json(answers))});
  for (const RankAnswer& answer : answers.ranks) {
    failed |= !answer.error.empty();
    if (!answer.error.empty()) {
      print_err("train-run: error: {}: {} of rank {}: {}\n", folder.path(), options.function,
                answer.rank.value, answer.error);
    } else if (!options.json) {
      print_out("{}{}\n", one ? "" : fmt::format("rank {}: ", answer.rank.value), answer.result);
    }
  }
  return failed ? kSomeFailed : 0;
}

}  // namespace

int exec_command(const RunReference& reference, const ExecCommand& options) {
  const auto call = call_of(options);
  if (!call) {
    print_error(call.error());
    return exit_code::kUsage;
  }
  const auto folder = folder_to_ask(reference);
  if (!folder) return not_answered(folder.error());
  auto request = PendingRequest::leave(*folder, *call);
  if (!request) return not_answered(request.error());
  const auto within = std::chrono::duration_cast<milliseconds>(call->within) + kAnswerWithin;
  const auto answer =
      request_answer(std::move(*request), *folder, within, "answer", OfLauncher::Same);
  if (!answer) return not_answered(answer.error());
  if (!answer->called || !answer->called->error.empty())
    return not_answered({Errc::Unavailable,
                         answer->called ? answer->called->error : "the answer is none to a call"});
  return show(*answer->called, options, *folder);
}

}  // namespace train
