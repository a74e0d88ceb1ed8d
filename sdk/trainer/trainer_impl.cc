#include "sdk/trainer/trainer_impl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "sdk/trainer/job_words.h"
#include "sdk/trainer/run_errors.h"
#include "sdk/trainer/run_folder.h"

namespace train {
namespace {

using trainer::DriverProcess;
using trainer::kNoRank;
using trainer::number_of;
using trainer::text_of;

constexpr int kCallbackFailuresMax = 3;  // in a row
constexpr auto kSlowRoundAfter = std::chrono::seconds(60);
constexpr auto kAttemptEndMax = std::chrono::minutes(10);  // once a worker of it has ended

std::uint64_t bytes_of(const Dict& event, const char* member) {
  return static_cast<std::uint64_t>(number_of(event, member).value_or(0));
}

}  // namespace

Trainer::Impl::~Impl() {
  if (group != nullptr) group->forget(this);
}

template <class Call>
void Trainer::Impl::tell(const char* what, Call&& call) {
  for (Listener& listener : listeners) {
    if (listener.failures >= kCallbackFailuresMax) continue;
    std::string why;
    try {
      call(*listener.callback);
      listener.failures = 0;
      continue;
    } catch (const std::exception& error) {
      why = error.what();
    } catch (...) {
      why = "an exception that is no std::exception";
    }
    const bool off = ++listener.failures >= kCallbackFailuresMax;
    std::fprintf(stderr, "trainrun: warning: %s of %s threw: %s%s\n", what,
                 listener.callback->name().c_str(), why.c_str(),
                 off ? "; after three exceptions in a row, it is told nothing more" : "");
  }
}

void Trainer::Impl::begin(const StartOptions& start) {
  if (trainer::in_worker())
    throw Failure("invalid_argument",
                  "a Trainer runs in a worker of another run; start it in the driver, or use the "
                  "constructor that takes a training loop");
  if (std::exchange(begun, true))
    throw Failure("invalid_argument", "this Trainer has run its job already: make another one");
  std::vector<std::string> argv{trainer::program_of(options), "run"};
  if (options.leave_run_on_exit) argv.insert(argv.end(), {"--on-driver-exit", "leave"});
  pace = start.pace;
  if (pace != 0) argv.insert(argv.end(), {"--pace", fmt::to_string(pace)});
  argv.insert(argv.end(), words.begin(), words.end());
  trainer::add_options(argv, options.arguments);
  if (group != nullptr) {
    group->check_active();
    trainer::add_options(argv, more_words);
    trainer::add_options(argv, group->words());
  }
  std::shared_ptr<DriverProcess> started;
  try {
    started = std::make_shared<DriverProcess>(
        DriverProcess::Options{.words = argv, .show_output = options.show_output});
  } catch (const Failure& why) {
    throw ControllerError(
        fmt::format("{} (set TRAINRUN_PROGRAM, or put train-run on PATH)", why.what()),
        RunResult());
  }
  const std::lock_guard lock(mutex);
  process = std::move(started);
}

void Trainer::Impl::begin_unless_started(const StartOptions& start) {
  if (process == nullptr || followed) {
    begin(start);
  } else if (start.pace != 0 && start.pace != pace) {
    throw Failure("invalid_argument",
                  fmt::format("iterate: this Trainer was started with pace {}, not {}: give the "
                              "pace to start()",
                              pace, start.pace));
  }
  followed = true;
}

/// Tell train-run that this driver is done with the newest round, if workers may wait for that.
void Trainer::Impl::acknowledge() {
  const auto round = std::exchange(given, std::nullopt);
  if (pace == 0 || !round) return;
  process->send(fmt::format("{{\"command\": \"acknowledge\", \"attempt\": {}, \"round\": {}}}\n",
                            round->first, round->second));
}

/// Return what train-run says next; nothing if it says nothing for a second.
std::optional<Dict> Trainer::Impl::next_event() {
  const auto line = process->next_line(std::chrono::seconds(1));
  if (!line) return std::nullopt;
  try {
    Dict event = parse_json(*line).as<Dict>();
    read(event);
    return event;
  } catch (const Failure& why) {
    throw ControllerError(fmt::format("train-run sent a line that is no event: {}", why.what()),
                          RunResult());
  }
}

/// Take from an event what is to be known at once, even if the event itself is handled later.
void Trainer::Impl::read(const Dict& event) {
  const std::string name = text_of(event, "event").value_or("");
  if (name == "attempt") {
    has_workers = true;
    ended_by.reset();  // that was told of an earlier one
  }
  if (group != nullptr && (name == "attempt" || name == "workers_not_used")) group->let_go();
  if (name == "exception" || name == "restart" || name == "end") has_workers = false;
  if (name == "exception")
    ended_by = trainer::root_rank(event);
  else if (name == "restart" && !ended_by)
    ended_by = kNoRank;
  if (const auto stay = event.find("workers_stay"); name == "end" && stay != event.end())
    workers_stay = stay->second == Value(true);
}

std::map<int, Value> Trainer::Impl::call(const std::string& name, const Value& argument,
                                         const CallOptions& call_options) {
  for (int left = call_options.retries;; --left) {
    trainer::CallAnswers answers = call_once(name, argument, call_options);
    const bool wait = left > 0 || call_options.ends_worker;
    const bool again = wait && may_call_again(answers, call_options.ends_worker);
    if (left <= 0 || !again) return std::move(answers).results(name, call_options.ends_worker);
  }
}

trainer::CallAnswers Trainer::Impl::call_once(const std::string& name, const Value& argument,
                                              const CallOptions& call_options) {
  using Clock = std::chrono::steady_clock;
  if (process == nullptr)
    throw Failure("invalid_argument", "call: this Trainer has not begun its job (start() does)");
  const std::int64_t id = ++calls;
  const std::string line = trainer::call_line(id, name, argument, call_options);
  const Clock::time_point until = Clock::now() + call_options.timeout;
  trainer::CallAnswers answers(id);
  bool sent = false;
  while (!answers.complete()) {
    if (!sent && has_workers) {
      ended_by.reset();
      process->send(line);
      sent = true;
    }
    if (run_over()) throw Failure("unavailable", "call of " + name + ": the run has ended");
    if (!sent && Clock::now() >= until)
      throw Failure("timeout", "call of " + name + ": the run has no workers yet");
    auto event = next_event();
    if (event && !answers.take(*event)) defer(std::move(*event));
  }
  return answers;
}

/// Return whether the call was lost with its attempt, or came when there was none, for another
/// reason than an exception of the function. Waits until it is known how the attempt has ended.
bool Trainer::Impl::may_call_again(const trainer::CallAnswers& answers, bool ends_worker) {
  if (!answers.failed()) return false;
  const bool ending = answers.has_lost() || (ends_worker && answers.first_thrown());
  if (!ending && !ended_by) return false;
  const auto until = std::chrono::steady_clock::now() + kAttemptEndMax;
  while (!ended_by && !run_over() && std::chrono::steady_clock::now() < until)
    if (auto event = next_event()) defer(std::move(*event));
  return ended_by ? !answers.has_thrown(*ended_by) : run_over();
}

/// Keep an event for later. The newest `logged` says what those before it have said.
void Trainer::Impl::defer(Dict event) {
  const auto is_logged = [](const Dict& one) { return text_of(one, "event") == "logged"; };
  if (is_logged(event) && !deferred.empty() && is_logged(deferred.back())) deferred.pop_back();
  deferred.push_back(std::move(event));
}

void Trainer::Impl::catch_up() {
  for (;;) {
    if (const auto round = log.next()) {
      told(*round);
      acknowledge();
    } else if (!deferred.empty()) {
      const Dict event = std::move(deferred.front());
      deferred.pop_front();
      handle(event);
    } else {
      return;
    }
  }
}

/// Follow the run until the next round is complete.
std::optional<Round> Trainer::Impl::next() {
  acknowledge();
  for (;;) {
    if (auto round = log.next()) {
      told(*round);
      return round;
    }
    if (!deferred.empty()) {
      const Dict event = std::move(deferred.front());
      deferred.pop_front();
      handle(event);
      continue;
    }
    if (run_over()) return std::nullopt;
    if (const auto event = next_event())
      handle(*event);
    else
      warn_if_slow();
  }
}

void Trainer::Impl::handle(const Dict& event) {
  const std::string name = text_of(event, "event").value_or("");
  if (name == "run") {
    log.begin(text_of(event, "folder").value_or(""), bytes_of(event, "logged"));
    if (!std::exchange(told_start, true))
      tell("start_training", [&](Callback& callback) { callback.start_training(log.folder()); });
  } else if (name == "attempt") {
    on_attempt(event);
  } else if (name == "logged") {
    log.logged(bytes_of(event, "bytes"));
  } else if (name == "checkpoint") {
    on_checkpoint(event);
  } else if (name == "exception") {
    give_up_checkpoints(0);
    failure = trainer::attempt_failure(event);
    tell("after_exception", [&](Callback& callback) { callback.after_exception(*failure); });
  } else if (name == "end") {
    give_up_checkpoints(0);
    end = event;
  }
}

void Trainer::Impl::on_attempt(const Dict& event) {
  const int attempt = static_cast<int>(number_of(event, "attempt").value_or(0));
  if (attempt != log.newest_attempt()) give_up_checkpoints(0);  // else these workers' commits go on
  failure.reset();
  log.attempt_began(attempt, static_cast<int>(number_of(event, "world_size").value_or(0)),
                    text_of(event, "resumes_from").value_or(""), event.contains("found_running"));
  moved = std::chrono::steady_clock::now();
}

void Trainer::Impl::on_checkpoint(const Dict& event) {
  const int attempt = static_cast<int>(number_of(event, "attempt").value_or(-1));
  const auto number = static_cast<std::uint64_t>(number_of(event, "report_seq").value_or(0));
  log.rounds().committed(text_of(event, "name").value_or(""), attempt, number);
  const auto found = std::find_if(uncommitted.begin(), uncommitted.end(), [&](const auto& one) {
    return one.attempt == attempt && one.number == number;
  });
  if (found == uncommitted.end()) return;
  give_up_checkpoints(static_cast<std::size_t>(uncommitted.end() - found));  // those before it
  std::optional<Checkpoint> checkpoint;
  try {
    checkpoint = Checkpoint::open(std::filesystem::path(log.folder()) / "checkpoints" /
                                  text_of(event, "name").value_or(""));
  } catch (const Failure&) {  // in an object store, or already removed by retention
  }
  const Round round = std::move(uncommitted.front());
  uncommitted.pop_front();
  tell("after_report", [&](Callback& callback) { callback.after_report(round, checkpoint); });
}

/// Tell that the checkpoints of all rounds but the newest `keep` are given up.
void Trainer::Impl::give_up_checkpoints(std::size_t keep) {
  while (uncommitted.size() > keep) {
    const Round round = std::move(uncommitted.front());
    uncommitted.pop_front();
    tell("after_report", [&](Callback& callback) { callback.after_report(round, std::nullopt); });
  }
}

void Trainer::Impl::told(const Round& round) {
  moved = std::chrono::steady_clock::now();
  said_slow = false;
  given = {round.attempt, round.number};
  tell("handle_result", [&](Callback& callback) { callback.handle_result(round); });
  if (round.has_checkpoint)
    uncommitted.push_back(round);
  else
    tell("after_report", [&](Callback& callback) { callback.after_report(round, std::nullopt); });
}

void Trainer::Impl::warn_if_slow() {
  if (said_slow || std::chrono::steady_clock::now() - moved < kSlowRoundAfter) return;
  const std::vector<int> missing = log.rounds().missing();
  if (missing.empty()) return;
  said_slow = true;
  std::fprintf(stderr,
               "trainrun: warning: a round has waited for a report of rank %s for %lld s (every "
               "rank must report equally often)\n",
               fmt::format("{}", fmt::join(missing, ", ")).c_str(),
               static_cast<long long>(kSlowRoundAfter.count()));
}

void Trainer::Impl::check_equal() const {
  const std::vector<std::uint64_t>& counts = log.rounds().counts();
  const bool equal =
      std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) == counts.end();
  const bool succeeded = end && text_of(*end, "outcome") == "succeeded" && !text_of(*end, "cause");
  if (equal || !succeeded || stop_asked) return;
  std::vector<std::string> parts;
  for (std::size_t rank = 0; rank < counts.size() && rank < 8; ++rank)
    parts.push_back(fmt::format("rank {} {}", rank, counts[rank]));
  throw Failure("ranks_disagree",
                fmt::format("the ranks have made unequal numbers of reports: {}{}; rounds need "
                            "each rank to report equally often",
                            fmt::join(parts, ", "), counts.size() > 8 ? ", …" : ""));
}

void Trainer::Impl::finish(const std::string& error) {
  if (std::exchange(told_finish, true) || !begun) return;
  tell("finish_training", [&](Callback& callback) { callback.finish_training(error); });
}

RunResult Trainer::Impl::ended() {
  try {
    return result_of_end();
  } catch (const TrainingFailed&) {
    failed = std::current_exception();
    throw;
  }
}

/// Return the result, or throw what the run's end calls for.
RunResult Trainer::Impl::result_of_end() {
  const int ended_with = leave();
  RunResult result;
  const bool has_run = !log.folder().empty() && end && end->contains("outcome");
  if (has_run) result = trainer::result_of(log.folder());
  if (end) {
    result.outcome = text_of(*end, "outcome").value_or("refused");
    result.cause = text_of(*end, "cause").value_or("");
    if (const auto metrics = end->find("metrics");
        metrics != end->end() && metrics->second.is_dict())
      result.metrics = metrics->second.as<Dict>();
  }
  result.exit_code = ended_with;
  std::string text = result.cause;
  if (text.empty()) text = process->errors();
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) text = fmt::format("train-run ended with {}", ended_with);
  over = true;
  if (ended_with == 0) {
    finish("");
    return result;
  }
  finish(text);
  trainer::throw_error_of(std::move(result), text, std::move(failure));
}

/// Be done with train-run, which has no more to say. Return its exit code.
int Trainer::Impl::leave() {
  if (code) return *code;
  if (!workers_stay) {
    code = process->wait();
    return *code;
  }
  code = static_cast<int>(number_of(end.value_or(Dict()), "code").value_or(0));
  if (group != nullptr)
    group->hold(process, folder());
  else
    process->leave();
  return *code;
}

std::filesystem::path Trainer::Impl::folder() const {
  if (!log.folder().empty()) return log.folder();
  for (const Dict& event : deferred)
    if (text_of(event, "event") == "run") return text_of(event, "folder").value_or("");
  return {};
}

void Trainer::Impl::stop() {
  const std::lock_guard lock(mutex);
  stop_asked = true;
  if (process != nullptr && !workers_stay) process->send("{\"command\": \"stop\"}\n");
}

std::optional<RunResult> Trainer::Impl::result(bool force) {
  if (process == nullptr) throw Failure("invalid_argument", "this Trainer has not run its job yet");
  if (over && failed) std::rethrow_exception(failed);
  if (over)
    throw Failure("invalid_argument", "the result of this Trainer has been returned already");
  if (!run_over()) {
    if (!force) return std::nullopt;
    stop();
  }
  while (next()) {
  }
  return ended();
}

void Trainer::Impl::conclude() {
  if (process == nullptr || over) return;
  try {
    result(/*force=*/true);
  } catch (const TrainingFailed&) {  // its callbacks know
  }
}

}  // namespace train
