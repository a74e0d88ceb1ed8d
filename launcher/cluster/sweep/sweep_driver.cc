#include "launcher/cluster/sweep/sweep_driver.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <deque>
#include <map>

#include "launcher/cluster/children/child_folder.h"
#include "launcher/cluster/children/child_run.h"
#include "launcher/cluster/children/shared_daemon.h"
#include "launcher/cluster/children/stop_wishes.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/cluster/sweep/searcher.h"
#include "launcher/cluster/sweep/sweep_folder.h"
#include "launcher/cluster/sweep/sweep_screen.h"
#include "launcher/cluster/sweep/sweep_tables.h"
#include "launcher/cluster/sweep/sweep_view.h"
#include "launcher/cluster/sweep/trial_command.h"
#include "launcher/cluster/sweep/trial_events.h"
#include "launcher/cluster/sweep/trial_reports.h"
#include "launcher/core/search/sweep_records.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/open_files.h"
#include "lib/base/overloaded.h"
#include "lib/base/print.h"
#include "lib/observe/append_file.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

constexpr Duration kLookEvery = milliseconds(200);  // at the folder, and at the traind
constexpr int kLaunchesMax = 3;                     // of a trial whose train-run is killed
constexpr Duration kSearcherSlow = seconds(10);
constexpr std::size_t kScoresMax = 4096;  // reports in which a checkpoint's is looked for

std::string wall_time() { return format_utc(std::chrono::system_clock::now()); }
TimePoint now() { return std::chrono::steady_clock::now(); }

class SweepDriver {
 public:
  explicit SweepDriver(const SweepOptions& options)
      : options_(options),
        folder_(options.folder),
        search_(options.search),
        screen_(options.output, search_),
        tables_(folder_, search_, screen_) {
    search_.limit_trials(options.fit);
  }

  Result<int> run();
  void leave(int code);

 private:
  struct Live {
    ChildRun process;
    TrialReports reports;
    int part = 1;
    std::deque<MetricAtTime> newest = {};       // kScoresMax of them
    std::deque<TrialCommitted> committed = {};  // whose reports have not been read yet
    std::pair<std::uint64_t, std::uint64_t> acknowledged = {};  // attempt, and number of the report
    bool told = false;                                          // to stop, by the search
    bool invalid = false;                                       // its end says so
    std::string cause = {};
    int launches = 1;
  };

  Result<Unit> open();
  Result<Unit> go_on();
  Result<ChildFolder> wait_for_trial(int trial);
  void say_who_has(int trial);
  const TrialState& state_of(int trial) const;
  RunFolder run_of(int trial) const;
  TrialReports reports_of(int trial) const;
  Result<Unit> go_on_with(int trial, const ChildFolder& found, int launches = 1);
  Result<Unit> look_at_taken();
  Result<Unit> launch(int trial, bool resume, int launches = 1);
  Result<Unit> open_searcher();
  Result<Unit> take_answers();
  Result<std::optional<EndSearch>> act();
  Result<Unit> write_records();
  void clear_trials();
  void wait();
  void let_reports_return();
  Result<Unit> look_at(int trial, Live& live);
  void take_report(const TrialReported& report);
  Result<Unit> read_reports(int trial, Live& live, std::uint64_t end);
  Result<Unit> score_checkpoints(int trial, Live& live);
  Result<Unit> process_ended(int trial, Live& live, const ChildRun::End& end);
  void end_trial(int trial, TrialEnd how, int code, std::string cause);
  void take_signals();
  void take_stop_request();
  void begin_to_stop(int code);
  Result<Unit> look_around();

  const SweepOptions& options_;
  const SweepFolder folder_;
  PosixFileSystem files_;
  SearchController search_;
  SweepScreen screen_;
  SweepTables tables_;
  const LockHolder self_{host_name(), ::getpid(), wall_time()};
  StopWishes stop_{folder_.stop_request(), self_};
  std::optional<RunLock> lock_;
  std::unique_ptr<Journal> journal_;
  std::optional<SharedDaemon> daemon_;
  std::optional<Searcher> searcher_;
  bool slow_said_ = false;                    // that the searcher takes long
  std::vector<boost::json::object> records_;  // not in the journal yet
  std::map<int, Live> live_;
  std::size_t cleared_ = 0;       // of the trials to clear, the first ones
  std::map<int, int> taken_;      // trials that another train-run has: how often they were launched
  std::optional<int> stop_code_;  // we are told to stop
  TimePoint looked_ = {};
  bool kept_changed_ = true;  // others of the kept checkpoints may be needed
};

// ---- opening

Result<Unit> SweepDriver::open() {
  TRY(auto lock, RunLock::acquire(files_, folder_.lock(), self_));
  lock_.emplace(std::move(lock));
  const RunFolder folder(folder_.path());
  if (const auto removed = files_.remove_file(folder_.exit_json());
      removed.has_error() && removed.error().code != Errc::NotFound)
    return removed.error();
  if (options_.detached)
    TRY_VOID(begin_detached(folder));
  else
    end_detached(folder);
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
  if (options_.more > 0) {
    const MoreTrials more{options_.more};
    records_.push_back(record_of(more));
    search_.handle(more);
    TRY_VOID(write_records());
  }
  TRY_VOID(make_folders(files_, folder_.trials()));
  const int at_once =
      std::min(options_.fit, options_.search.max_concurrent_trials.value_or(options_.fit));
  screen_.began(options_.name, folder_.path(), at_once, resumed);
  return Unit{};
}

/// Wait until no train-run has the trial's run any more, which one of an earlier driver may still
/// be stopping, and look at what it has left. Only before trials of ours run.
Result<ChildFolder> SweepDriver::wait_for_trial(int trial) {
  const RunFolder run = run_of(trial);
  const int part = state_of(trial).part;
  const RunFolder before(folder_.trial(trial, std::max(1, part - 1)));
  bool said = false;
  for (;;) {
    TRY(const bool held, is_held(run.lock()));
    TRY(const bool before_held, is_held(before.lock()));
    if (!held && !before_held) return look_into_child(files_, run);
    if (!std::exchange(said, true)) say_who_has(trial);
    pollfd polled{stop_.fd(), POLLIN, 0};
    ::poll(&polled, 1, 100);
    take_signals();
    take_stop_request();
    if (stop_code_) return ChildFolder{};
  }
}

const TrialState& SweepDriver::state_of(int trial) const {
  return search_.trials()[static_cast<std::size_t>(trial)];
}

/// Return the folder of the run of the trial's newest part.
RunFolder SweepDriver::run_of(int trial) const {
  return RunFolder(folder_.trial(trial, state_of(trial).part));
}

TrialReports SweepDriver::reports_of(int trial) const {
  const auto& from = state_of(trial).from;
  return TrialReports(run_of(trial), search_.spec().metric, search_.spec().time_attribute,
                      from ? from->time : 0);
}

void SweepDriver::say_who_has(int trial) {
  screen_.warn(fmt::format("waiting for trial {}, which an earlier train-run is stopping", trial));
}

/// Go on with a trial that was begun, and that no train-run has now, from what it has left.
Result<Unit> SweepDriver::go_on_with(int trial, const ChildFolder& found, int launches) {
  TrialReports reports = reports_of(trial);
  TRY(const auto metrics, reports.read(std::numeric_limits<std::uint64_t>::max()));
  for (const MetricAtTime& metric : metrics) take_report({trial, metric.time, metric.value});
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
    const RunFolder run = run_of(trial);
    TRY(const bool held, is_held(run.lock()));
    if (held) {
      ++next;
      continue;
    }
    next = taken_.erase(next);
    TRY_VOID(go_on_with(trial, look_into_child(files_, run), launches + 1));
  }
  return Unit{};
}

/// Go on with the trials that an earlier driver has begun.
Result<Unit> SweepDriver::go_on() {
  std::map<int, ChildFolder> left;
  for (const int trial : search_.running()) {
    TRY(left[trial], wait_for_trial(trial));
    if (stop_code_) return Unit{};
  }
  if (options_.own_daemon || !options_.private_daemon.empty())
    TRY_VOID(daemon_.emplace(folder_.daemon_note(), options_.private_daemon).open());
  for (const auto& [trial, found] : left) {
    TRY_VOID(go_on_with(trial, found));
  }
  return write_records();
}

// ---- the searcher

Result<Unit> SweepDriver::open_searcher() {
  const SearchSpec& spec = search_.spec();
  if (spec.search != SearchKind::Command || stop_code_) return Unit{};
  const Searcher::Options options{.command = spec.command,
                                  .folder = options_.working_dir,
                                  .environment = options_.environment,
                                  .sweep = folder_.path(),
                                  .log = folder_.searcher_log()};
  searcher_.emplace(options, search_);
  return searcher_->start();
}

Result<Unit> SweepDriver::take_answers() {
  if (!searcher_ || stop_code_) return Unit{};
  TRY(const auto answers, searcher_->take());
  for (const SearcherAnswer& answer : answers)
    std::visit(Overloaded{[&](const TrialProposed& proposed) { search_.handle(proposed); },
                          [&](const SearcherDone& done) {
                            records_.push_back(record_of(done));
                            search_.handle(done);
                          },
                          [&](const TrialPruned& pruned) {
                            if (!search_.may_stop(pruned.trial)) return;  // it has ended meanwhile
                            records_.push_back(record_of(pruned));
                            search_.handle(pruned);
                          }},
               answer);
  const bool slow = live_.empty() && searcher_->thinks(now()) > kSearcherSlow;
  if (slow && !std::exchange(slow_said_, true))
    screen_.warn(
        fmt::format("the searcher has not proposed a trial for {} s; what it says is in {}",
                    kSearcherSlow / seconds(1), folder_.searcher_log()));
  slow_said_ = slow_said_ && slow;
  return Unit{};
}

// ---- trials

Result<Unit> SweepDriver::launch(int trial, bool resume, int launches) {
  const auto words = trial_command(options_, folder_, state_of(trial), trial, resume,
                                   options_.own_daemon ? daemon_->runtime_dir() : "");
  TRY(auto process, ChildRun::start(words, options_.variables));
  live_.erase(trial);
  live_.emplace(trial, Live{.process = std::move(process),
                            .reports = reports_of(trial),
                            .part = state_of(trial).part,
                            .launches = launches});
  return Unit{};
}

Result<Unit> SweepDriver::write_records() {
  if (records_.empty()) return Unit{};
  TRY_VOID(lock_->check());
  TRY_VOID(journal_->append(records_, wall_time()));
  records_.clear();
  tables_.changed();
  if (!std::exchange(kept_changed_, false)) return Unit{};
  remove_checkpoints(folder_, search_.needed_checkpoints());
  clear_trials();
  return Unit{};
}

/// Remove the checkpoints of trials that have ended and are not to keep them.
void SweepDriver::clear_trials() {
  for (; cleared_ < search_.trials_to_clear().size(); ++cleared_) {
    const int trial = search_.trials_to_clear()[cleared_];
    for (int part = 1; part <= state_of(trial).part; ++part) {
      const auto cleared = clear_checkpoints(files_, RunFolder(folder_.trial(trial, part)), self_);
      if (!cleared)
        screen_.warn(
            fmt::format("the checkpoints of trial {} stay: {}", trial, cleared.error().describe()));
    }
  }
}

/// Do what the search wants. Return its end, once it has one.
Result<std::optional<EndSearch>> SweepDriver::act() {
  std::optional<EndSearch> end;
  std::vector<StartTrial> starts;
  std::vector<TrialExploited> exploits;
  TRY_VOID(write_records());
  for (const SearchAction& action : search_.next_actions()) {
    std::visit(Overloaded{[&](const AskSearcher& ask) { searcher_->ask(ask.trial); },
                          [&](const StartTrial& start) { starts.push_back(start); },
                          [&](const StopTrial& stop) {
                            const auto live = live_.find(stop.trial);
                            if (live == live_.end()) return;
                            live->second.told = true;
                            live->second.cause = stop.why;
                            live->second.process.ask_to_stop();
                          },
                          [&](const ExploitTrial& found) {
                            // Later, if another train-run still has its run.
                            if (live_.contains(found.exploit.trial))
                              exploits.push_back(found.exploit);
                          },
                          [&](const EndSearch& found) { end = found; }},
               action);
  }
  for (const auto& [trial, values] : starts) {
    const TrialStarted started{trial, values};
    search_.handle(started);
    records_.push_back(record_of(started, state_of(trial).values));
  }
  for (const TrialExploited& exploit : exploits) {
    records_.push_back(record_of(exploit, state_of(exploit.trial)));
    search_.handle(exploit);
  }
  TRY_VOID(write_records());
  for (const TrialExploited& exploit : exploits) {
    screen_.trial_exploited(exploit.trial);
    live_.at(exploit.trial).process.ask_to_stop();  // process_ended() begins the next part
  }
  for (const auto& [trial, values] : starts) {
    TRY_VOID(launch(trial, false));
    screen_.trial_started(trial);
  }
  return end;
}

void SweepDriver::end_trial(int trial, TrialEnd how, int code, std::string cause) {
  const TrialEnded ended{trial, how, code, std::move(cause)};
  records_.push_back(record_of(ended, search_.trials()[static_cast<std::size_t>(trial)]));
  search_.handle(ended);
  if (searcher_) searcher_->tell(trial);
  kept_changed_ = true;
  screen_.trial_ended(trial);
}

void SweepDriver::take_report(const TrialReported& report) {
  if (search_.is_decisive(report)) records_.push_back(record_of(report));
  search_.handle(report);
}

Result<Unit> SweepDriver::read_reports(int trial, Live& live, std::uint64_t end) {
  TRY(const auto metrics, live.reports.read(end));
  if (live.part != state_of(trial).part) return Unit{};  // it stops, and nobody looks at it
  for (const MetricAtTime& metric : metrics) {
    live.newest.push_back(metric);
    if (live.newest.size() > kScoresMax) live.newest.pop_front();
    const TrialReported report{trial, metric.time, metric.value};
    take_report(report);
    if (searcher_) searcher_->report(report);
  }
  return Unit{};
}

/// Keep those of its new checkpoints that the search wants to compare, and tell it. A checkpoint
/// counts as the report that it came with.
Result<Unit> SweepDriver::score_checkpoints(int trial, Live& live) {
  while (!live.committed.empty() && !live.newest.empty()) {
    const TrialCommitted& committed = live.committed.front();
    const auto order = [](const auto& one) { return std::pair(one.attempt, one.report); };
    if (order(committed) > order(live.newest.back())) return Unit{};  // not read yet
    const auto its = std::find_if(live.newest.begin(), live.newest.end(),
                                  [&](const auto& one) { return order(one) == order(committed); });
    if (its != live.newest.end() && live.part == state_of(trial).part && !live.told &&
        search_.wants_checkpoint(trial, its->time)) {
      const std::string name = fmt::format("{}-{}", SweepFolder::trial_name(trial, live.part),
                                           committed.path.substr(committed.path.rfind('_') + 1));
      const auto kept = keep_checkpoint(files_, folder_, committed.path, name);
      const TrialCheckpointed event{trial, live.part, {its->time, its->value, name}};
      if (kept) {
        records_.push_back(record_of(event));
        search_.handle(event);
        kept_changed_ = true;
      } else {
        screen_.warn(fmt::format("trial {} is not compared at this checkpoint: {}", trial,
                                 kept.error().describe()));
      }
    }
    live.committed.pop_front();
  }
  return Unit{};
}

/// Take in what a trial has told, and its end.
Result<Unit> SweepDriver::look_at(int trial, Live& live) {
  const auto end = live.process.ended();  // first: what it has told is there then
  for (const boost::json::object& told : live.process.take_events()) {
    const auto event = trial_event(told);
    if (!event) continue;
    TRY_VOID(std::visit(Overloaded{[&](const TrialLogged& logged) {
                                     return read_reports(trial, live, logged.bytes);
                                   },
                                   [&](const TrialCommitted& committed) -> Result<Unit> {
                                     live.committed.push_back(committed);
                                     if (live.committed.size() > kScoresMax)
                                       live.committed.pop_front();
                                     return Unit{};
                                   },
                                   [&](const TrialRunEnded& ended) -> Result<Unit> {
                                     if (!live.told) live.cause = ended.cause;
                                     live.invalid = ended.invalid;
                                     return Unit{};
                                   }},
                        *event));
  }
  TRY_VOID(score_checkpoints(trial, live));
  const std::string said = live.process.said();
  if (!end) return Unit{};
  if (live.cause.empty()) live.cause = said;
  return process_ended(trial, live, *end);
}

Result<Unit> SweepDriver::process_ended(int trial, Live& live, const ChildRun::End& end) {
  if (live.part != state_of(trial).part) {  // its next part begins, however this one has ended
    live_.erase(trial);
    return stop_code_ ? Result<Unit>(Unit{}) : launch(trial, false);
  }
  if (end.killed && !stop_code_ && !live.told && live.launches < kLaunchesMax) {
    screen_.warn(fmt::format("the train-run of trial {} was killed by signal {}: it is resumed",
                             trial, end.code - 128));
    const bool begun = look_into_child(files_, run_of(trial)).begun;
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

/// With lock_step, let the trials go on behind the reports that the search has seen. Those that it
/// stops have been told so by now.
void SweepDriver::let_reports_return() {
  if (!search_.spec().lock_step) return;
  for (auto& [trial, live] : live_) {
    const auto newest = live.reports.newest();
    if (newest == live.acknowledged) continue;
    if (live.process.acknowledge(newest.first, newest.second)) live.acknowledged = newest;
  }
}

void SweepDriver::begin_to_stop(int code) {
  if (!stop_code_) {
    stop_code_ = code;
    if (!live_.empty())
      screen_.warn(fmt::format("stopping: {} trials make their checkpoints", live_.size()));
  }
  for (const auto& [trial, live] : live_) live.process.send_signal(SIGTERM);
}

void SweepDriver::take_signals() {
  while (const auto code = stop_.by_signal()) begin_to_stop(*code);
}

void SweepDriver::take_stop_request() {
  if (const auto code = stop_.by_file()) begin_to_stop(*code);
}

Result<Unit> SweepDriver::look_around() {
  if (now() - looked_ < kLookEvery) return Unit{};
  looked_ = now();
  take_stop_request();
  TRY_VOID(look_at_taken());
  return daemon_ ? daemon_->look() : Unit{};
}

void SweepDriver::wait() {
  std::vector<pollfd> polled{{stop_.fd(), POLLIN, 0}};
  for (const auto& [trial, live] : live_)
    for (const int fd : {live.process.socket(), live.process.errors(), live.process.process()})
      if (fd >= 0) polled.push_back({fd, POLLIN, 0});
  if (searcher_ && !stop_code_) searcher_->add_to(polled);
  ::poll(polled.data(), polled.size(), static_cast<int>(kLookEvery / milliseconds(1)));
}

Result<int> SweepDriver::run() {
  TRY_VOID(open());
  TRY_VOID(go_on());
  std::optional<EndSearch> end;
  Result<Unit> going = open_searcher();
  while (going) {
    if (!stop_code_) {
      auto acted = act();
      if (!acted) {
        going = acted.error();
        break;
      }
      end = *acted;
      let_reports_return();
    } else {
      going = write_records();
    }
    if (!going || end || (stop_code_ && live_.empty())) break;
    tables_.write(now(), false);
    screen_.refresh(now());
    wait();
    take_signals();
    going = look_around();
    if (going) going = take_answers();
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
  tables_.write(now(), true);
  if (searcher_) searcher_->end();
  if (daemon_) daemon_->leave();
  if (!going) return going.error();
  screen_.ended(end ? end->code : *stop_code_, end ? end->cause : "", folder_.path(), !end);
  return end ? end->code : *stop_code_;
}

/// Leave word that we have come to an end, if the sweep was ours: a traind that watches us starts
/// no other driver then.
void SweepDriver::leave(int code) {
  if (!lock_) return;
  const boost::json::object end{{"code", code}};
  if (const auto written = replace_file(folder_.exit_json(), boost::json::serialize(end) + "\n");
      !written)
    screen_.warn(written.error().describe());
  end_detached(RunFolder(folder_.path()));
}

int code_of(Errc code) {
  switch (code) {
    case Errc::AlreadyExists:
      return exit_code::kTaken;
    case Errc::Unavailable:
      return exit_code::kUnavailable;
    case Errc::Corrupt:
      return exit_code::kDamaged;
    default:
      return exit_code::kIo;
  }
}

}  // namespace

int run_sweep(const SweepOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  raise_open_files();  // a trial has three
  SweepDriver driver(options);
  const auto code = driver.run();
  if (!code) print_error("train-run", code.error());
  const int ended = code ? *code : code_of(code.error().code);
  driver.leave(ended);
  return ended;
}

}  // namespace train
