#include "launcher/cluster/run/solo_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "launcher/cluster/checkpoints/checkpoint_rows.h"
#include "launcher/cluster/reports/report_sinks.h"
#include "launcher/cluster/run/driver_port.h"
#include "launcher/cluster/run/solo_end.h"
#include "launcher/cluster/run/solo_record.h"
#include "launcher/report/progress.h"
#include "launcher/report/summary.h"
#include "lib/base/exec_program.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/net/within.h"
#include "lib/observe/metrics_log.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr Duration kKillAfter = seconds(5);  // after SIGTERM, and between two SIGKILL
constexpr int kSignalsMax =
    8;  // what is still there then waits in the kernel, or is another user's

int errno_of(const Error& error) {
  return error.code == Errc::NotFound ? ENOENT : error.code == Errc::Permission ? EACCES : ENOEXEC;
}

/// Holds back the signals that this process is to handle, while it does not yet.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    ::sigemptyset(&held);
    for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) ::sigaddset(&held, number);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { let_go(); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  void let_go() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Start the program in a process of its own, which ends with this one. Return its process id. Call
/// it before this process handles signals: the program must not inherit that.
Result<pid_t> start(const SoloProgram& program, const HeldSignals& held) {
  int failed[2];  // the child says why it cannot become the program
  if (::pipe2(failed, O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  const FileDescriptor reading(failed[0]);
  FileDescriptor writing(failed[1]);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return system_error(errno, "starting a process");
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    ::signal(SIGPIPE, SIG_DFL);
    held.let_go();
    if (::getppid() != parent) ::_exit(1);  // it had died already
    ::clearenv();
    for (const auto& [name, value] : program.environment) ::setenv(name.c_str(), value.c_str(), 1);
    const Error why = exec_program(program.spec.command);
    const int number = errno_of(why);
    (void)!::write(writing.get(), &number, sizeof number);
    ::_exit(1);
  }
  writing.reset(-1);
  int number = 0;
  ssize_t count = 0;
  do count = ::read(reading.get(), &number, sizeof number);
  while (count < 0 && errno == EINTR);
  if (count != sizeof number) return pid;
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return system_error(number, "starting " + program.spec.command.front());
}

/// The other end of a pipe that the program writes its errors to, and the driver reads: kept open,
/// so that a driver that dies takes no program with it that says something afterwards.
class KeptStderr {
 public:
  KeptStderr() {
    struct stat found {};
    if (::fstat(STDERR_FILENO, &found) == 0 && S_ISFIFO(found.st_mode))
      end_.reset(::open("/proc/self/fd/2", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  /// Read what is there, in the driver's place. Only once the driver is gone.
  void drain() const {
    std::array<char, 64 << 10> buffer{};
    for (int reads = 0; end_.get() >= 0 && reads < 16; ++reads)
      if (::read(end_.get(), buffer.data(), buffer.size()) <= 0) return;
  }

 private:
  FileDescriptor end_;
};

class Messages final : public UserMessages {
 public:
  void phase(std::string_view) override {}
  void warn(const std::string& text) override {
    if (speaks) print_err("train-run: warning: {}\n", Lines{text});
    said.push_back(text);
  }
  bool speaks = true;
  std::vector<std::string> said;
};

ProgressOptions for_driver(const SoloProgram& program) {
  return {.mode = OutputMode::Json,
          .run = program.name,
          .path = program.folder.path(),
          .for_driver = true};
}

class SoloRun {
 public:
  SoloRun(const SoloProgram& program, MetricsLog log,
          std::vector<std::unique_ptr<ReportSink>> sinks)
      : program_(program),
        log_(std::move(log)),
        sinks_(std::move(sinks)),
        executor_(context_.get_executor()),
        scope_(executor_),
        loop_(executor_),
        driver_(executor_, program.driver_fd, handlers(), messages_),
        record_(program.folder),
        progress_(for_driver(program), moment()),
        retention_(retention_policy(program.spec.run_config.checkpoint_config)) {
    summary_.run = program.name;
    summary_.path = program.folder.path();
    summary_.world_size = summary_.nnodes = 1;
    summary_.begun = clock_.wall();
    began_ = clock_.now();
  }

  int run() {
    {
      const HeldSignals held;
      started_ = start(program_, held);
      signals_.emplace(executor_, SIGTERM, SIGINT, SIGHUP);
      signals_->add(SIGUSR1);
    }
    driver_.begin(scope_);
    scope_.spawn("signals", take_signals());
    loop_.spawn("follow", follow());
    context_.run();
    return exit_code_of(summary_);
  }

 private:
  DriverPort::Handlers handlers() {
    return {.asked = [this](const DriverCommand& command) { asked(command); },
            .gone =
                [this](const std::string& why) {
                  if (ending_) return;
                  driver_gone_ = true;
                  messages_.speaks = false;  // nobody reads it but we: the pipe may be full
                  messages_.warn(fmt::format("the driver is gone: {}", why));
                  if (!program_.outlives_driver) stop(Outcome::Preempted, "its driver is gone");
                }};
  }
  Moment moment() const { return {clock_.now(), clock_.wall()}; }
  void tell(std::string line, bool newest = false) { driver_.send(std::move(line), newest); }

  void asked(const DriverCommand& command) {
    switch (command.kind) {
      case DriverCommand::Kind::Stop:
        return stop(Outcome::Succeeded, "its driver asked it to");
      case DriverCommand::Kind::Call: {
        const CallAnswers none{.error =
                                   "with num_workers: 0 nobody can call the program's functions"};
        for (std::string& line : called_lines(command.id, none, clock_.wall()))
          tell(std::move(line));
        return;
      }
      case DriverCommand::Kind::Acknowledge:  // there is no pace
      case DriverCommand::Kind::Release:      // nor anybody who stays
        return;
    }
  }

  /// Ask the program to stop at its next report, and end it if it makes none.
  void stop(Outcome outcome, const std::string& reason) {
    if (stop_asked_) return;
    stop_asked_ = outcome;
    stop_reason_ = reason;
    terminate_at_ = clock_.now() + program_.spec.run_config.failure_config.stop_grace;
  }

  asio::awaitable<void> take_signals() {
    for (;;) {
      boost::system::error_code ec;
      const int number =
          co_await signals_->async_wait(asio::redirect_error(asio::use_awaitable, ec));
      if (ec) co_return;
      if (number == SIGINT) continue;  // it reaches the program by itself, which has the terminal
      if (number != SIGUSR1 && stop_asked_) terminate_at_ = clock_.now();  // again: now
      stop(Outcome::Preempted, number == SIGTERM  ? "SIGTERM"
                               : number == SIGHUP ? "SIGHUP"
                                                  : "SIGUSR1");
    }
  }

  void begin_attempt() {
    PosixFileSystem fs;
    AttemptNews news{.attempt = record_.attempt().value, .world_size = 1, .nnodes = 1};
    if (const auto listed = CheckpointStore(fs, program_.folder.checkpoints()).list()) {
      const CheckpointTable table =
          checkpoint_table(*listed, program_.spec.run_config.checkpoint_config);
      for (const CheckpointRow& row : table.rows)
        if (row.latest) news.resumes_from = row.name;
    }
    if (!summary_.attempts.empty())
      summary_.attempts.back().duration = clock_.now() - attempt_began_;
    attempt_began_ = clock_.now();
    summary_.attempts.push_back(
        {.attempt = news.attempt, .world_size = 1, .nnodes = 1, .begun = clock_.wall()});
    summary_.results.assign(1, "");
    error_.reset();
    with_checkpoint_.clear();
    tell(progress_.attempt_started(news, moment()));
  }

  asio::awaitable<void> follow() {
    const auto logged = log_.size();
    tell(progress_.run_opened(program_.name, program_.folder.path(), logged ? *logged : 0,
                              moment()));
    tell(progress_.started(1, 1, moment()));
    begin_attempt();
    asio::steady_timer timer(executor_);
    while (started_) {
      const bool ended = has_ended();  // before looking: then everything is there
      const bool more = look();
      if (ended && !more) break;
      if (!ended) end_if_due();
      if (driver_gone_) stderr_.drain();
      timer.expires_after(more ? Duration{0} : kLookEvery);  // the driver may say something
      boost::system::error_code ignored;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    ending_ = true;
    end();
    auto told = within(kDriverEndMax, driver_.sent());
    (void)co_await std::move(told);
    signals_->cancel();
    scope_.cancel();
    co_await scope_.join();  // so that context_.run() has nothing left to do
  }

  /// Return whether the program has ended, and all that it has started. What it has left is ended.
  bool has_ended() {
    for (;;) {
      int status = 0;
      const pid_t pid = ::waitpid(-1, &status, WNOHANG);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0 && errno == ECHILD) return true;
      if (pid <= 0) break;
      if (pid != *started_) continue;  // what an ended process has left comes to us
      ended_ = true;
      status_ = status;
      terminate_at_ = clock_.now();
      leaves_ = std::exchange(signals_sent_, 0) > 0;
    }
    if (ended_) end_what_is_left();
    if (signals_sent_ <= kSignalsMax) return false;
    if (!std::exchange(gave_up_, true))
      messages_.warn("processes that the program has started cannot be killed: they are left");
    if (!ended_) status_ = SIGKILL;  // as waitpid() would tell it
    return true;
  }

  void end_if_due() {
    if (!stop_asked_ || ended_) return;
    record_.ask_to_stop();  // again: a debugger may have started it anew
    end_what_is_left();
  }

  /// End the program, or what it has left, if it is time: with SIGTERM, and later with SIGKILL.
  void end_what_is_left() {
    if (clock_.now() < terminate_at_) return;
    const int number = signals_sent_++ == 0 ? SIGTERM : SIGKILL;
    for (const pid_t pid : program_.process_tree())
      if (pid != ::getpid()) ::kill(pid, number);
    terminate_at_ = clock_.now() + kKillAfter;
  }

  /// Return whether there was something new, and so may be more.
  bool look() {
    auto news = record_.take();
    if (news) take(*news);
    return news.has_value();
  }

  void take(SoloRecord::News& news) {
    if (news.began) begin_attempt();
    if (!news.reports.empty()) keep(news.reports);
    for (const SoloRecord::Kept& kept : news.checkpoints) committed(kept);
    if (!news.result.empty()) summary_.results.front() = news.result;
    if (news.error) error_ = std::move(news.error);
  }

  void keep(std::vector<ReportRecord>& reports) {
    auto logged = log_.on_reports(reports);
    if (logged) logged = log_.sync();
    if (!logged) warn_once(logged.error());
    const auto bytes = log_.size();
    if (logged && bytes) tell(progress_.logged(*bytes, moment()), /*newest=*/true);
    for (const auto& sink : sinks_) {
      auto taken = sink->on_reports(reports);
      if (taken) taken = sink->flush();
      if (!taken) warn_once(taken.error());
    }
    for (ReportRecord& report : reports)
      if (report.has_checkpoint) with_checkpoint_[report.report_seq] = report.metrics;
    summary_.metrics = std::move(reports.back().metrics);
  }

  void committed(const SoloRecord::Kept& kept) {
    const auto report = with_checkpoint_.find(kept.report_seq);
    std::optional<double> score;
    if (report != with_checkpoint_.end() && retention_.score_attribute)
      score = score_of(retention_, CheckpointNumber{0}, report->second).value;
    with_checkpoint_.erase(with_checkpoint_.begin(), with_checkpoint_.upper_bound(kept.report_seq));
    tell(progress_.checkpoint({.name = kept.name,
                               .path = join_path(program_.folder.checkpoints(), kept.name),
                               .score = score,
                               .attempt = record_.attempt().value,
                               .report_seq = kept.report_seq},
                              moment()));
  }

  void warn_once(const Error& error) {
    if (!std::exchange(warned_, true)) messages_.warn(error.describe());
  }

  void end() {
    summary_.ended = clock_.wall();
    summary_.duration = clock_.now() - began_;
    AttemptSummary& attempt = summary_.attempts.back();
    attempt.duration = clock_.now() - attempt_began_;
    WorkerFailure failure{.kind = !started_              ? EndKind::StartFailed
                                  : WIFSIGNALED(status_) ? EndKind::Killed
                                                         : EndKind::Exited,
                          .rank = 0,
                          .node = host_name(),
                          .attempt = attempt.attempt,
                          .program = program_.spec.command.front(),
                          .detail = ""};
    failure.end.signaled = WIFSIGNALED(status_);
    failure.end.status = WIFSIGNALED(status_) ? WTERMSIG(status_) : WEXITSTATUS(status_);
    if (!started_) failure.end.status = errno_of(started_.error());
    failure.end.error = error_;
    summary_.outcome = outcome_of({.started = started_.has_value(),
                                   .signaled = failure.end.signaled,
                                   .status = failure.end.status,
                                   .after_our_signal = leaves_,
                                   .asked_for = stop_asked_});
    if (summary_.outcome == Outcome::Interrupted) summary_.reason = "Ctrl-C";
    if (summary_.outcome == stop_asked_) summary_.reason = stop_reason_;
    if (summary_.outcome == Outcome::Failed) {
      summary_.root = root_cause_of(failure, 0);
      attempt.cause = summary_.root->text.cause;
      tell(exception_event({.attempt = attempt.attempt, .cause = attempt.cause, .ranks = {failure}},
                           clock_.wall()));
    }
    summarize_checkpoints();
    summary_.warnings = messages_.said;
    PosixFileSystem fs;
    for (const auto& [path, text] : {std::pair(program_.folder.run_json(), run_json(summary_)),
                                     std::pair(program_.folder.exit_json(), exit_json(summary_))})
      if (const auto put = write_small_file(fs, path, text); !put) warn_once(put.error());
    tell(end_event(summary_));
  }

  void summarize_checkpoints() {
    PosixFileSystem fs;
    const auto listed = CheckpointStore(fs, program_.folder.checkpoints()).list();
    if (!listed) return;
    const CheckpointTable table =
        checkpoint_table(*listed, program_.spec.run_config.checkpoint_config);
    for (const CheckpointRow& row : table.rows) {
      const CheckpointSummary summary{row.name, row.path, table.score_attribute, row.score};
      if (row.latest) summary_.latest = summary;
      if (row.best) summary_.best = summary;
    }
  }

  const SoloProgram& program_;
  MetricsLog log_;
  std::vector<std::unique_ptr<ReportSink>> sinks_;
  SystemClock clock_;
  Messages messages_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  Scope scope_, loop_;
  std::optional<asio::signal_set> signals_;
  const KeptStderr stderr_;
  DriverPort driver_;
  SoloRecord record_;
  Progress progress_;
  const RetentionPolicy retention_;
  RunSummary summary_;
  TimePoint began_{}, attempt_began_{};
  Result<pid_t> started_ = pid_t{0};
  int status_ = 0;
  std::optional<UserError> error_;                    // of the newest attempt
  std::map<std::uint64_t, Metrics> with_checkpoint_;  // reports whose checkpoint is not committed
  std::optional<Outcome> stop_asked_;                 // the end that it leads to
  std::string stop_reason_;
  TimePoint terminate_at_{};
  bool ended_ = false;    // the program; it may have left others
  bool gave_up_ = false;  // waiting for its processes
  int signals_sent_ = 0;  // to the program, or to what it has left
  bool leaves_ = false;   // the program ended after we had sent it that
  bool driver_gone_ = false, ending_ = false, warned_ = false;
};

}  // namespace

Result<int> run_solo_for_driver(const SoloProgram& program) {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGCHLD, SIG_DFL);  // a driver may ignore it, which is inherited
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  PosixFileSystem fs;
  for (const std::string& path : {program.folder.exit_json(), program.folder.run_json()})
    (void)fs.remove_file(path);  // of an earlier program
  TRY(auto log, MetricsLog::open(program.folder.metrics()));
  TRY(auto sinks,
      open_report_sinks(program.spec.run_config.callbacks, program.folder,
                        std::chrono::system_clock::now(), "", {}, hparams_of(program.spec)));
  return SoloRun(program, std::move(log), std::move(sinks)).run();
}

}  // namespace train
