// exec: has the train-run that controls a run call a function that its workers' programs serve, or
// run a command beside them, and prints what they answer.
#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
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
  WorkerCall call{.name = options.function, .command = options.command};
  if (call.name.empty() == call.command.empty())
    return wrong(call.name.empty() ? "exec lacks a function's name, or -- and a command"
                                   : "exec takes a function's name, or -- and a command, not both",
                 "to see what a rank's node says: train-run exec RUN --rank 0 -- nvidia-smi");
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

/// Print the text with `prefix` before each line, to stderr or stdout.
void print_lines(const std::string& prefix, std::string_view text, bool of_errors) {
  std::string lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines += prefix;
    lines.append(text.substr(0, end)) += '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  of_errors ? print_err("{}", Lines{lines}) : print_out("{}", Lines{lines});
}

/// Return the exit code of a command, as a shell would; 124 if it took too long, as timeout(1).
int code_of(const CommandEnd& end) {
  constexpr int kLate = 124, kSignalled = 128;
  if (end.timed_out) return kLate;
  for (int number = 1; !end.signal.empty() && number < NSIG; ++number) {
    const char* name = ::sigabbrev_np(number);
    if (end.signal == (name != nullptr ? fmt::format("SIG{}", name) : std::to_string(number)))
      return kSignalled + number;
  }
  return end.signal.empty() ? end.exit_code : kSignalled;
}

Result<CommandEnd> end_of(const RankAnswer& answer) {
  if (!answer.error.empty()) return Error{Errc::Unavailable, answer.error};
  return parse_command_end(answer.result);
}

/// Show what one rank's command has written, with `prefix` before each line.
void show_command(const RankAnswer& answer, const std::string& prefix, const std::string& where) {
  const auto say = [&](const std::string& what) {
    print_err("train-run: {}: rank {}: {}\n", where, answer.rank.value, what);
  };
  const auto end = end_of(answer);
  if (end.has_error()) return say("error: " + end.error().message);
  print_lines(prefix, end->out, false);
  print_lines(prefix, end->err, true);
  if (end->cut) say("warning: the command has written more than is shown");
  if (end->timed_out)
    say("error: the command took longer than --timeout, and was killed");
  else if (!end->signal.empty())
    say("error: the command was killed by " + end->signal);
}

/// Return the command's exit code for one rank, else whether it was 0 on all.
int show_commands(const CallAnswers& answers, const ExecCommand& options, const RunFolder& folder) {
  if (options.json) print_out("{}\n", Lines{boost::json::serialize(to_json(answers))});
  const bool one = answers.ranks.size() == 1;
  int code = 0;
  for (const RankAnswer& answer : answers.ranks) {
    if (!options.json)
      show_command(answer, one ? "" : fmt::format("rank {}: ", answer.rank.value), folder.path());
    const auto end = end_of(answer);
    const int its = end ? code_of(*end) : exit_code::kUnavailable;
    if (its != 0) code = one ? its : kSomeFailed;
  }
  return code;
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
  const auto within =
      std::chrono::duration_cast<milliseconds>(call->within + kCommandEndMax) + kAnswerWithin;
  const auto answer =
      request_answer(std::move(*request), *folder, within, "answer", OfLauncher::Same);
  if (!answer) return not_answered(answer.error());
  if (!answer->called || !answer->called->error.empty())
    return not_answered({Errc::Unavailable,
                         answer->called ? answer->called->error : "the answer is none to a call"});
  return options.command.empty() ? show(*answer->called, options, *folder)
                                 : show_commands(*answer->called, options, *folder);
}

}  // namespace train
