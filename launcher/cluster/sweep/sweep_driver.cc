#include "launcher/cluster/sweep/sweep_driver.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <map>
#include <thread>

#include "launcher/cluster/links/private_daemon.h"
#include "launcher/cluster/sweep/sweep_folder.h"
#include "launcher/cluster/sweep/sweep_screen.h"
#include "launcher/cluster/sweep/sweep_view.h"
#include "launcher/cluster/sweep/trial_process.h"
#include "launcher/cluster/sweep/trial_reports.h"
#include "launcher/core/search/sweep_records.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/open_files.h"
#include "lib/base/overloaded.h"
#include "lib/base/print.h"
#include "lib/base/stop_signals.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

constexpr Duration kLookEvery = milliseconds(200);  // at the folder, and at the traind
constexpr Duration kWriteEvery = seconds(1);        // trials.csv
constexpr Duration kDaemonEndMax = seconds(5);
constexpr int kLaunchesMax = 3;  // of a trial whose train-run is killed
constexpr int kDaemonFailuresMax = 3;
constexpr std::uint64_t kRequestBytesMax = 4096;

std::string wall_time() { return format_utc(std::chrono::system_clock::now()); }
TimePoint now() { return std::chrono::steady_clock::now(); }

/// Return KEY=VALUE for --set, whose value is YAML: JSON is.
std::string assignment(std::string_view key, const boost::json::value& value) {
  return fmt::format("{}={}", key, boost::json::serialize(value));
}

/// Return the text for a key in which ${NAME} would be replaced.
std::string literal(std::string text) {
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at + 3))
    text.insert(at, "$");
  return text;
}

class SweepDriver {
 public:
  explicit SweepDriver(const SweepOptions& options)
      : options_(options),
        folder_(options.folder),
        search_(options.search),
        screen_(options.output, search_) {
    search_.limit_trials(options.fit);
  }

  Result<int> run();

 private:
  struct Live {
    TrialProcess process;
    TrialReports reports;
    bool told = false;     // to stop, by the search
    bool invalid = false;  // its end says so
    std::string cause = {};
    int launches = 1;
  };

  Result<Unit> open();
  Result<Unit> open_daemon();
  Result<Unit> go_on();
  Result<TrialFolder> wait_for_trial(int trial);
  void say_who_has(int trial);
  Result<Unit> go_on_with(int trial, const TrialFolder& found, int launches = 1);
  Result<Unit> look_at_taken();
  Result<Unit> launch(int trial, bool resume, int launches = 1);
  std::vector<std::string> words_of(int trial, bool resume) const;
  Result<std::optional<EndSearch>> act();
  Result<Unit> write_records();
  void wait();
  Result<Unit> look_at(int trial, Live& live);
  Result<Unit> read_reports(int trial, Live& live, std::uint64_t end);
  Result<Unit> process_ended(int trial, Live& live, const TrialProcess::End& end);
  void end_trial(int trial, TrialEnd how, int code, std::string cause);
  void take_signals();
  void take_stop_request();
  void begin_to_stop(int code);
  Result<Unit> look_around();
  void write_tables(bool at_end);
  void leave_daemon();

  const SweepOptions& options_;
  const SweepFolder folder_;
  PosixFileSystem files_;
  StopSignals signals_;
  SearchController search_;
  SweepScreen screen_;
  const LockHolder self_{host_name(), ::getpid(), wall_time()};
  std::optional<RunLock> lock_;
  std::unique_ptr<Journal> journal_;
  std::optional<PrivateDaemon> daemon_;
  std::vector<boost::json::object> records_;  // not in the journal yet
  std::map<int, Live> live_;
  std::map<int, int> taken_;      // trials that another train-run has: how often they were launched
  std::optional<int> stop_code_;  // we are told to stop
  int signals_taken_ = 0;
  TimePoint looked_ = {}, written_ = {};
  bool changed_ = true;  // since trials.csv was written
  std::optional<int> linked_;
};

// ---- opening

Result<Unit> SweepDriver::open() {
  TRY(auto lock, RunLock::acquire(files_, folder_.lock(), self_));
  lock_.emplace(std::move(lock));
  TRY(journal_, Journal::open(files_, folder_.journal()));
  const bool resumed = !journal_->replayed().records.empty();
  for (const JournalRecord& record : journal_->replayed().records)
    if (!take_in(search_, record.event))
      return Error{
          Errc::Corrupt,
          fmt::format("{} has a record that cannot be: number {}", folder_.journal(), record.seq),
          "the file, or spec.resolved.yaml beside it, was changed"};
  TRY_VOID(journal_->take_generation(
      wall_time(), {{"host", host_name()}, {"pid", ::getpid()}, {"build", options_.build}}));
  TRY_VOID(make_folders(files_, folder_.trials()));
  const int at_once =
      std::min(options_.fit, options_.search.max_concurrent_trials.value_or(options_.fit));
  screen_.began(options_.name, folder_.path(), at_once, resumed);
  return Unit{};
}

// Workers of a trial whose train-run was killed, too, may still run under an earlier traind: we use
// that one again. Without any, it is about to leave.
Result<Unit> SweepDriver::open_daemon() {
  if (!options_.own_daemon) return Unit{};
  daemon_ = PrivateDaemon::find(folder_.daemon_note());
  if (daemon_ && !daemon_->has_supervisors()) {
    for (const TimePoint until = now() + kDaemonEndMax; !daemon_->ended() && now() < until;)
      std::this_thread::sleep_for(milliseconds(10));
    daemon_ = PrivateDaemon::find(folder_.daemon_note());
  }
  if (!daemon_) {
    PrivateDaemon::clean_up_lost(folder_.daemon_note());
    daemon_.emplace();
  }
  daemon_->stay_while_we_live();
  if (daemon_->ended()) TRY_VOID(daemon_->start());
  daemon_->remember(folder_.daemon_note());
  return Unit{};
}

/// Wait until no train-run has the trial's run any more, which one of an earlier driver may still
/// be stopping, and look at what it has left. Only before trials of ours run.
Result<TrialFolder> SweepDriver::wait_for_trial(int trial) {
  const RunFolder run(folder_.trial(trial));
  bool said = false;
  for (;;) {
    TRY(const bool held, is_held(run.lock()));
    if (!held) return look_into_trial(files_, run);
    if (!std::exchange(said, true)) say_who_has(trial);
    pollfd polled{signals_.fd(), POLLIN, 0};
    ::poll(&polled, 1, 100);
    take_signals();
    take_stop_request();
    if (stop_code_) return TrialFolder{};
  }
}

void SweepDriver::say_who_has(int trial) {
  screen_.warn(fmt::format("waiting for trial {}, which an earlier train-run is stopping", trial));
}

/// Go on with a trial that was begun, and that no train-run has now, from what it has left.
Result<Unit> SweepDriver::go_on_with(int trial, const TrialFolder& found, int launches) {
  TrialReports reports(RunFolder(folder_.trial(trial)), search_.spec().metric,
                       search_.spec().time_attribute);
  TRY(const auto metrics, reports.read(std::numeric_limits<std::uint64_t>::max()));
  for (const MetricAtTime& metric : metrics) {
    const TrialReported report{trial, metric.time, metric.value};
    if (search_.is_decisive(report)) records_.push_back(record_of(report));
    search_.handle(report);
  }
  const bool stops = search_.trials()[static_cast<std::size_t>(trial)].stops;
  const ResumeStep step = resume_step(found, stops);
  if (step != ResumeStep::End) {
    TRY_VOID(write_records());
    return launch(trial, step == ResumeStep::Resume, launches);
  }
  const int code = found.code.value_or(exit_code::kOk);
  end_trial(trial, end_of(code, stops).value_or(TrialEnd::Stopped), code, "");
  return Unit{};
}

/// Take up the trials that others had, once those have ended.
Result<Unit> SweepDriver::look_at_taken() {
  if (stop_code_) taken_.clear();  // nothing is begun any more; they can go on
  for (auto next = taken_.begin(); next != taken_.end();) {
    const auto [trial, launches] = *next;
    const RunFolder run(folder_.trial(trial));
    TRY(const bool held, is_held(run.lock()));
    if (held) {
      ++next;
      continue;
    }
    next = taken_.erase(next);
    TRY_VOID(go_on_with(trial, look_into_trial(files_, run), launches + 1));
  }
  return Unit{};
}

/// Go on with the trials that an earlier driver has begun.
Result<Unit> SweepDriver::go_on() {
  std::map<int, TrialFolder> left;
  for (const int trial : search_.running()) {
    TRY(left[trial], wait_for_trial(trial));
    if (stop_code_) return Unit{};
  }
  TRY_VOID(open_daemon());
  for (const auto& [trial, found] : left) {
    TRY_VOID(go_on_with(trial, found));
  }
  return write_records();
}

// ---- trials

std::vector<std::string> SweepDriver::words_of(int trial, bool resume) const {
  std::vector<std::string> words{options_.program, resume ? "resume" : "run"};
  words.push_back(resume ? folder_.trial(trial) : folder_.resolved_spec());
  words.insert(words.end(), {"--driver-fd", "{FD}", "--on-driver-exit", "stop"});
  if (daemon_) words.insert(words.end(), {"--shared-daemon", daemon_->runtime_dir()});
  if (resume) return words;
  const auto set = [&](const std::string& text) { words.insert(words.end(), {"--set", text}); };
  set("sweep=null");
  set("name=" + boost::json::serialize(boost::json::string(SweepFolder::trial_name(trial))));
  set(assignment("run_config.storage_path", boost::json::string(literal(folder_.trials()))));
  set(fmt::format("env.TRAINRUN_TRIAL=\"{}\"", trial));
  if (options_.shorten_orphans) set("run_config.failure_config.orphan_timeout=10s");
  constexpr std::string_view kOfSpec = "spec.";
  for (const auto& [path, value] : search_.trials()[static_cast<std::size_t>(trial)].values) {
    const std::string_view key = path;
    set(key.starts_with(kOfSpec) ? assignment(key.substr(kOfSpec.size()), value)
                                 : assignment(fmt::format("train_loop_config.{}", key), value));
  }
  return words;
}

Result<Unit> SweepDriver::launch(int trial, bool resume, int launches) {
  TRY(auto process, TrialProcess::start(words_of(trial, resume), options_.variables));
  live_.erase(trial);
  live_.emplace(trial,
                Live{.process = std::move(process),
                     .reports = TrialReports(RunFolder(folder_.trial(trial)), search_.spec().metric,
                                             search_.spec().time_attribute),
                     .launches = launches});
  return Unit{};
}

Result<Unit> SweepDriver::write_records() {
  if (records_.empty()) return Unit{};
  TRY_VOID(lock_->check());
  TRY_VOID(journal_->append(records_, wall_time()));
  records_.clear();
  changed_ = true;
  return Unit{};
}

/// Do what the search wants. Return its end, once it has one.
Result<std::optional<EndSearch>> SweepDriver::act() {
  std::optional<EndSearch> end;
  std::vector<int> starts;
  TRY_VOID(write_records());
  for (const SearchAction& action : search_.next_actions()) {
    std::visit(Overloaded{[&](const StartTrial& start) { starts.push_back(start.trial); },
                          [&](const StopTrial& stop) {
                            const auto live = live_.find(stop.trial);
                            if (live == live_.end()) return;
                            live->second.told = true;
                            live->second.cause = stop.why;
                            live->second.process.ask_to_stop();
                          },
                          [&](const EndSearch& found) { end = found; }},
               action);
  }
  for (const int trial : starts) {
    search_.handle(TrialStarted{trial});
    records_.push_back(
        record_of(TrialStarted{trial}, search_.trials()[static_cast<std::size_t>(trial)].values));
  }
  TRY_VOID(write_records());
  for (const int trial : starts) {
    TRY_VOID(launch(trial, false));
    screen_.trial_started(trial);
  }
  return end;
}

void SweepDriver::end_trial(int trial, TrialEnd how, int code, std::string cause) {
  const TrialEnded ended{trial, how, code, std::move(cause)};
  records_.push_back(record_of(ended, search_.trials()[static_cast<std::size_t>(trial)]));
  search_.handle(ended);
  screen_.trial_ended(trial);
}

Result<Unit> SweepDriver::read_reports(int trial, Live& live, std::uint64_t end) {
  TRY(const auto metrics, live.reports.read(end));
  for (const MetricAtTime& metric : metrics) {
    const TrialReported report{trial, metric.time, metric.value};
    if (search_.is_decisive(report)) records_.push_back(record_of(report));
    search_.handle(report);
  }
  return Unit{};
}

/// Take in what a trial has told, and its end.
Result<Unit> SweepDriver::look_at(int trial, Live& live) {
  const auto end = live.process.ended();  // first: what it has told is there then
  for (const boost::json::object& event : live.process.take_events()) {
    const auto text = [&](std::string_view name) {
      const auto* value = event.if_contains(name);
      return value != nullptr && value->is_string() ? std::string(value->as_string()) : "";
    };
    const std::string kind = text("event");
    if (kind == "run" || kind == "logged") {
      const auto* bytes = event.if_contains(kind == "run" ? "logged" : "bytes");
      if (bytes != nullptr && bytes->is_int64() && bytes->as_int64() >= 0)
        TRY_VOID(read_reports(trial, live, static_cast<std::uint64_t>(bytes->as_int64())));
    } else if (kind == "end") {
      if (!live.told) live.cause = text("cause");
      live.invalid = code_in(event) == exit_code::kBadSpec;
    }
  }
  const std::string said = live.process.said();
  if (!end) return Unit{};
  if (live.cause.empty()) live.cause = said;
  return process_ended(trial, live, *end);
}

Result<Unit> SweepDriver::process_ended(int trial, Live& live, const TrialProcess::End& end) {
  if (end.killed && !stop_code_ && !live.told && live.launches < kLaunchesMax) {
    screen_.warn(fmt::format("the train-run of trial {} was killed by signal {}: it is resumed",
                             trial, end.code - 128));
    const bool begun = look_into_trial(files_, RunFolder(folder_.trial(trial))).begun;
    return launch(trial, begun, live.launches + 1);  // `live` is gone from here on
  }
  // One that an earlier driver had started came first: it stops, since that driver is gone.
  if (end.code == exit_code::kTaken && !stop_code_ && live.launches < kLaunchesMax) {
    say_who_has(trial);
    taken_[trial] = live.launches;
    live_.erase(trial);
    return Unit{};
  }
  const Live ended = std::move(live);
  live_.erase(trial);
  if (end.killed && !ended.told) {
    if (stop_code_) return Unit{};  // it can go on
    end_trial(trial, TrialEnd::Failed, end.code,
              fmt::format("its train-run was killed by signal {}", end.code - 128));
    return Unit{};
  }
  const int code = ended.invalid && !end.killed ? exit_code::kBadSpec : end.code;
  auto how = ended.told && end.killed ? TrialEnd::Stopped : end_of(code, ended.told);
  if (!how && stop_code_) return Unit{};  // stopped with us: it can go on
  if (!how) {
    const bool taken = code == exit_code::kTaken && !ended.told;
    end_trial(trial, taken ? TrialEnd::Failed : TrialEnd::Stopped, code,
              taken ? ended.cause : "somebody has stopped it");
    return Unit{};
  }
  end_trial(trial, *how, code, ended.cause);
  return Unit{};
}

// ---- waiting and stopping

void SweepDriver::begin_to_stop(int code) {
  if (!stop_code_) {
    stop_code_ = code;
    if (!live_.empty())
      screen_.warn(fmt::format("stopping: {} trials make their checkpoints", live_.size()));
  }
  for (const auto& [trial, live] : live_) live.process.send_signal(SIGTERM);
}

void SweepDriver::take_signals() {
  for (int number = signals_.take(); number != 0; number = signals_.take()) {
    if (++signals_taken_ > 2)
      ::_exit(number == SIGINT ? exit_code::kInterrupted : exit_code::kRequeue);
    begin_to_stop(number == SIGINT ? exit_code::kInterrupted : exit_code::kRequeue);
  }
}

void SweepDriver::take_stop_request() {
  const auto text = read_small_file(files_, folder_.stop_request(), kRequestBytesMax);
  if (text.has_error()) return;
  ::unlink(folder_.stop_request().c_str());  // else it is for an earlier owner
  if (*text == stop_text(self_)) begin_to_stop(exit_code::kInterrupted);
}

Result<Unit> SweepDriver::look_around() {
  if (now() - looked_ < kLookEvery) return Unit{};
  looked_ = now();
  take_stop_request();
  TRY_VOID(look_at_taken());
  if (!daemon_ || !daemon_->ended()) return Unit{};
  if (daemon_->failures() >= kDaemonFailuresMax) {
    Error why = daemon_->last_error();
    return Error{Errc::Unavailable, "the traind of this sweep cannot start: " + why.message,
                 why.hint};
  }
  TRY_VOID(daemon_->start());
  daemon_->remember(folder_.daemon_note());
  return Unit{};
}

void SweepDriver::wait() {
  std::vector<pollfd> polled{{signals_.fd(), POLLIN, 0}};
  for (const auto& [trial, live] : live_)
    for (const int fd : {live.process.socket(), live.process.errors(), live.process.process()})
      if (fd >= 0) polled.push_back({fd, POLLIN, 0});
  ::poll(polled.data(), polled.size(), static_cast<int>(kLookEvery / milliseconds(1)));
}

void SweepDriver::write_tables(bool at_end) {
  if (!changed_ || (!at_end && now() - written_ < kWriteEvery)) return;
  written_ = now();
  changed_ = false;
  if (const auto written = write_trials_csv(folder_, search_); !written)
    screen_.warn(written.error().describe());
  const auto best = search_.best();
  if (!best || best == linked_) return;
  linked_ = best;
  if (const auto linked = link_best(folder_, *best); !linked)
    screen_.warn(linked.error().describe());
}

/// Let our traind leave, which it does with the last run.
void SweepDriver::leave_daemon() {
  if (!daemon_) return;
  daemon_->leave_with_its_runs();
  for (const TimePoint until = now() + kDaemonEndMax; !daemon_->ended() && now() < until;)
    std::this_thread::sleep_for(milliseconds(10));
}

Result<int> SweepDriver::run() {
  TRY_VOID(open());
  TRY_VOID(go_on());
  std::optional<EndSearch> end;
  Result<Unit> going = Unit{};
  while (going) {
    if (!stop_code_) {
      auto acted = act();
      if (!acted) {
        going = acted.error();
        break;
      }
      end = *acted;
    } else {
      going = write_records();
    }
    if (!going || end || (stop_code_ && live_.empty())) break;
    write_tables(false);
    screen_.refresh(now());
    wait();
    take_signals();
    going = look_around();
    std::vector<int> trials;
    for (const auto& [trial, live] : live_) trials.push_back(trial);
    for (const int trial : trials)
      if (going) going = look_at(trial, live_.at(trial));
  }
  if (!going) {  // stop in good order, so that it can go on
    screen_.warn(going.error().describe());
    begin_to_stop(exit_code::kIo);
    while (!live_.empty()) {
      wait();
      take_signals();
      for (auto live = live_.begin(); live != live_.end();) {
        (void)live->second.process.take_events();
        (void)live->second.process.said();
        live = live->second.process.ended() ? live_.erase(live) : std::next(live);
      }
    }
  }
  if (end) {
    records_.push_back({{"event", "sweep_ended"}, {"code", end->code}, {"cause", end->cause}});
    going = write_records();
  }
  write_tables(true);
  leave_daemon();
  if (!going) return going.error();
  screen_.ended(end ? end->code : *stop_code_, end ? end->cause : "", folder_.path(), !end);
  return end ? end->code : *stop_code_;
}

}  // namespace

int run_sweep(const SweepOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  raise_open_files();  // a trial has three
  SweepDriver driver(options);
  const auto code = driver.run();
  if (code) return *code;
  print_error("train-run", code.error());
  switch (code.error().code) {
    case Errc::AlreadyExists:
    case Errc::Unavailable:
      return code.error().code == Errc::AlreadyExists ? exit_code::kTaken : exit_code::kUnavailable;
    case Errc::Corrupt:
      return exit_code::kDamaged;
    default:
      return exit_code::kIo;
  }
}

}  // namespace train
