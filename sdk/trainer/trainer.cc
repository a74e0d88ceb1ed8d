#include <fmt/format.h>
#include <fmt/ranges.h>
#include <train/train.h>
#include <train/trainer.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "sdk/trainer/driver_process.h"
#include "sdk/trainer/report_log.h"
#include "sdk/trainer/run_folder.h"
#include "sdk/trainer/worker_calls.h"

namespace train {
namespace {

using trainer::DriverProcess;
using trainer::number_of;
using trainer::ReportLog;
using trainer::text_of;

constexpr int kCallbackFailuresMax = 3;  // in a row
constexpr auto kSlowRoundAfter = std::chrono::seconds(60);

constexpr int kNoRank = -1;
constexpr auto kAttemptEndMax = std::chrono::minutes(10);  // once a worker of it has ended

/// Return whether train-run has started this process as a worker, or alone (num_workers: 0).
bool in_worker() {
  return std::getenv("TRAINRUN_SOCKET") != nullptr || std::getenv("TRAINRUN_SOLO_DIR") != nullptr;
}

std::string program_of(const TrainerOptions& options) {
  if (!options.program.empty()) return options.program;
  const char* named = std::getenv("TRAINRUN_PROGRAM");
  return named != nullptr && *named != '\0' ? named : "train-run";
}

/// Return "--set key=value" for each, in order of the keys.
std::vector<std::string> set_words(const Dict& values) {
  std::vector<std::string> words;
  for (const auto& [key, value] : values)
    words.insert(words.end(), {"--set", key + "=" + to_json(value)});
  return words;
}

/// Return the path by which workers find this program: in a job that ships its code, relative to
/// working_dir if it lies there.
std::string on_nodes(const std::filesystem::path& program, const Dict& spec) {
  const auto ship = spec.find("ship");
  if (ship == spec.end() || ship->second == Value(false)) return program.string();
  std::error_code ec;
  const auto given = text_of(spec, "working_dir");
  const auto root = std::filesystem::weakly_canonical(given ? *given : ".", ec);
  const auto relative = program.lexically_relative(root);
  const bool inside = !relative.empty() && *relative.begin() != "..";
  return inside && !ec ? "./" + relative.string() : program.string();
}

std::uint64_t bytes_of(const Dict& event, const char* member) {
  return static_cast<std::uint64_t>(number_of(event, member).value_or(0));
}

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

AttemptFailure attempt_failure(const Dict& event) {
  AttemptFailure failure;
  failure.attempt = static_cast<int>(number_of(event, "attempt").value_or(0));
  failure.cause = text_of(event, "cause").value_or("");
  failure.omitted = static_cast<int>(number_of(event, "omitted").value_or(0));
  for (const Value& rank : trainer::list_of(event, "ranks")) {
    if (!rank.is_dict()) continue;
    RankFailure one = rank_failure(rank.as<Dict>());
    const int number = one.rank;
    failure.ranks.emplace(number, std::move(one));
  }
  return failure;
}

/// Return the rank whose failure is the root cause of the attempt's, if it is one rank's.
int root_rank(const Dict& exception) {
  const List ranks = trainer::list_of(exception, "ranks");
  if (ranks.empty() || !ranks.front().is_dict()) return kNoRank;
  return static_cast<int>(number_of(ranks.front().as<Dict>(), "rank").value_or(kNoRank));
}

}  // namespace

struct Trainer::Impl {
  struct Listener {
    std::shared_ptr<Callback> callback;
    int failures = 0;  // in a row; kCallbackFailuresMax: switched off
  };
  TrainerOptions options;
  std::vector<std::string> words;  // the job: behind "train-run run"
  std::vector<Listener> listeners;

  std::mutex mutex;  // protects process against stop()
  std::unique_ptr<DriverProcess> process;
  bool begun = false, followed = false, over = false, told_start = false, told_finish = false;
  std::atomic<bool> stop_asked = false;
  ReportLog log;
  std::deque<Round> uncommitted;          // told, but their checkpoints are not committed yet
  std::optional<AttemptFailure> failure;  // the newest attempt's
  std::optional<Dict> end;
  std::exception_ptr failed;  // what ended() has thrown
  std::chrono::steady_clock::time_point moved = std::chrono::steady_clock::now();
  bool said_slow = false;
  bool has_workers = false;   // by what was read; `deferred` may not have been handled yet
  std::deque<Dict> deferred;  // came during a call
  /// How the attempt that was called last has ended, as far as was read: the rank that is the root
  /// cause, or kNoRank.
  std::optional<int> ended_by;
  std::int64_t calls = 0;
  int pace = 0;
  std::optional<std::pair<int, std::uint64_t>>
      given;  // attempt and number of an unacknowledged round

  void begin(const StartOptions& start);
  void begin_unless_started(const StartOptions& start = {});
  void acknowledge();
  std::optional<Dict> next_event();
  std::map<int, Value> call(const std::string& name, const Value& argument,
                            const CallOptions& call_options);
  trainer::CallAnswers call_once(const std::string& name, const Value& argument,
                                 const CallOptions& call_options);
  bool may_call_again(const trainer::CallAnswers& answers, bool ends_worker);
  void defer(Dict event);
  void catch_up();
  std::optional<Round> next();
  void handle(const Dict& event);
  void on_attempt(const Dict& event);
  void on_checkpoint(const Dict& event);
  void give_up_checkpoints(std::size_t keep);
  void told(const Round& round);
  void warn_if_slow();
  void check_equal() const;
  template <class Call>
  void tell(const char* what, Call&& call);
  void finish(const std::string& error);
  RunResult ended();
  RunResult result_of_end();
};

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
  if (in_worker())
    throw Failure("invalid_argument",
                  "a Trainer runs in a worker of another run; start it in the driver, or use the "
                  "constructor that takes a training loop");
  if (std::exchange(begun, true))
    throw Failure("invalid_argument", "this Trainer has run its job already: make another one");
  std::vector<std::string> argv{program_of(options), "run"};
  if (options.leave_run_on_exit) argv.insert(argv.end(), {"--on-driver-exit", "leave"});
  pace = start.pace;
  if (pace != 0) argv.insert(argv.end(), {"--pace", fmt::to_string(pace)});
  argv.insert(argv.end(), words.begin(), words.end());
  const auto program_words = std::find(argv.begin(), argv.end(), "--");
  argv.insert(program_words, options.arguments.begin(), options.arguments.end());
  std::unique_ptr<DriverProcess> started;
  try {
    started = std::make_unique<DriverProcess>(
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
    const std::string name = text_of(event, "event").value_or("");
    if (name == "attempt") {
      has_workers = true;
      ended_by.reset();  // that was told of an earlier one
    }
    if (name == "exception" || name == "restart" || name == "end") has_workers = false;
    if (name == "exception")
      ended_by = root_rank(event);
    else if (name == "restart" && !ended_by)
      ended_by = kNoRank;
    return event;
  } catch (const Failure& why) {
    throw ControllerError(fmt::format("train-run sent a line that is no event: {}", why.what()),
                          RunResult());
  }
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
    if (process->over()) throw Failure("unavailable", "call of " + name + ": the run has ended");
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
  while (!ended_by && !process->over() && std::chrono::steady_clock::now() < until)
    if (auto event = next_event()) defer(std::move(*event));
  return ended_by ? !answers.has_thrown(*ended_by) : process->over();
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
    if (process->over()) return std::nullopt;
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
    failure = attempt_failure(event);
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
  const int code = process->wait();
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
  result.exit_code = code;
  std::string text = result.cause;
  if (text.empty()) text = process->errors();
  while (text.ends_with('\n')) text.pop_back();
  if (text.empty()) text = fmt::format("train-run ended with {}", code);
  over = true;
  if (code == 0) {
    finish("");
    return result;
  }
  finish(text);
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

Trainer::Trainer(std::filesystem::path job, Dict overrides, TrainerOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->words = {job.string()};
  const std::vector<std::string> set = set_words(overrides);
  impl_->words.insert(impl_->words.end(), set.begin(), set.end());
}

Trainer::Trainer(Dict spec, TrainerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->words = set_words(spec);
}

Trainer::Trainer(int argc, char** argv, Dict spec, const std::function<void(const Config&)>& loop,
                 TrainerOptions options)
    : impl_(std::make_unique<Impl>()) {
  if (in_worker()) std::exit(train::run(argc, argv, loop));
  std::error_code ec;
  List command{Value(on_nodes(std::filesystem::read_symlink("/proc/self/exe", ec), spec))};
  for (int i = 1; i < argc; ++i) command.emplace_back(argv[i]);
  spec["command"] = std::move(command);
  impl_->options = std::move(options);
  impl_->words = set_words(spec);
}

Trainer::~Trainer() {
  if (impl_ == nullptr || impl_->process == nullptr || impl_->over) return;
  stop();
  impl_->finish("the driver has left its loop before the run's end");
}

Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::add_callback(std::shared_ptr<Callback> callback) {
  impl_->listeners.push_back({std::move(callback)});
}

void Trainer::start(const StartOptions& options) { impl_->begin(options); }

std::map<int, Value> Trainer::call(const std::string& name, const Value& argument,
                                   const CallOptions& options) {
  return impl_->call(name, argument, options);
}

void Trainer::catch_up() { impl_->catch_up(); }

std::filesystem::path Trainer::folder() const {
  if (!impl_->log.folder().empty()) return impl_->log.folder();
  for (const Dict& event : impl_->deferred)
    if (text_of(event, "event") == "run") return text_of(event, "folder").value_or("");
  return {};
}

RunResult Trainer::fit() {
  impl_->begin_unless_started();
  while (impl_->next()) {
  }
  return impl_->ended();
}

Rounds Trainer::iterate(const StartOptions& options) {
  impl_->begin_unless_started(options);
  return Rounds(*impl_);
}

void Trainer::stop() {
  const std::lock_guard lock(impl_->mutex);
  impl_->stop_asked = true;
  if (impl_->process != nullptr) impl_->process->send("{\"command\": \"stop\"}\n");
}

std::optional<RunResult> Trainer::result(bool force) {
  if (impl_->process == nullptr)
    throw Failure("invalid_argument", "this Trainer has not run its job yet");
  if (impl_->over && impl_->failed) std::rethrow_exception(impl_->failed);
  if (impl_->over)
    throw Failure("invalid_argument", "the result of this Trainer has been returned already");
  if (!impl_->process->over()) {
    if (!force) return std::nullopt;
    stop();
  }
  while (impl_->next()) {
  }
  return impl_->ended();
}

std::optional<Round> Rounds::next() {
  if (auto round = impl_->next()) return round;
  impl_->check_equal();
  return std::nullopt;
}

Rounds::Iterator Rounds::begin() {
  Iterator first;
  first.rounds_ = this;
  first.round_ = next();
  return first;
}

}  // namespace train
