#include "cmd/train-run/solo_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "cmd/exit_code_of.h"
#include "cmd/train-run/exec_program.h"
#include "cmd/train-run/solo_record.h"
#include "launcher/cluster/checkpoints/checkpoint_rows.h"
#include "launcher/cluster/reports/report_sinks.h"
#include "launcher/cluster/run/driver_port.h"
#include "launcher/report/progress.h"
#include "launcher/report/summary.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/net/within.h"
#include "lib/observe/metrics_log.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr Duration kKillAfter = seconds(5);  // after SIGTERM

/// Start the program in a process of its own, which ends with this one. Return its process id.
Result<pid_t> start(const SoloProgram& program) {
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
    if (::getppid() != parent) ::_exit(1);  // it had died already
    ::clearenv();
    for (const auto& [name, value] : program.environment) ::setenv(name.c_str(), value.c_str(), 1);
    const Error why = exec_program(program.spec.command);
    const int number = why.code == Errc::NotFound ? ENOENT : errno;
    (void)!::write(writing.get(), &number, sizeof number);
    ::_exit(1);
  }
  writing.reset(-1);
  int number = 0;
  if (::read(reading.get(), &number, sizeof number) != sizeof number) return pid;
  ::waitpid(pid, nullptr, 0);
  return system_error(number, "starting " + program.spec.command.front());
}

class Messages final : public UserMessages {
 public:
  void phase(std::string_view) override {}
  void warn(const std::string& text) override {
    print_err("train-run: warning: {}\n", Lines{text});
    said.push_back(text);
  }
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
  SoloRun(const SoloProgram& program, const RunCommand& options, MetricsLog log,
          std::vector<std::unique_ptr<ReportSink>> sinks)
      : program_(program),
        outlives_driver_(options.on_driver_exit == "leave"),
        log_(std::move(log)),
        sinks_(std::move(sinks)),
        executor_(context_.get_executor()),
        scope_(executor_),
        signals_(executor_, SIGTERM, SIGINT),
        driver_(executor_, options.driver_fd, handlers(), messages_),
        record_(program.folder),
        progress_(for_driver(program), moment()),
        retention_(retention_policy(program.spec.run_config.checkpoint_config)) {
    summary_.run = program.name;
    summary_.path = program.folder.path();
    summary_.world_size = summary_.nnodes = 1;
    summary_.begun = clock_.wall();
    began_ = clock_.now();
  }

  int run(pid_t pid) {
    pid_ = pid;
    driver_.begin(scope_);
    scope_.spawn("signals", take_signals());
    asio::co_spawn(executor_, follow(), asio::detached);
    context_.run();
    return exit_code_of(summary_);
  }

 private:
  DriverPort::Handlers handlers() {
    return {.asked = [this](const DriverCommand& command) { asked(command); },
            .gone =
                [this](const std::string& why) {
                  if (ending_) return;
                  messages_.warn(fmt::format("the driver is gone: {}", why));
                  if (!outlives_driver_) stop(Outcome::Preempted, "its driver is gone");
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
      case DriverCommand::Kind::Acknowledge:
        return;  // there is no pace
    }
  }

  /// Ask the program to stop at its next report, and end it if it makes none.
  void stop(Outcome outcome, const std::string& reason) {
    if (stop_asked_) return;
    stop_asked_ = outcome;
    summary_.reason = reason;
    terminate_at_ = clock_.now() + program_.spec.run_config.failure_config.stop_grace;
  }

  asio::awaitable<void> take_signals() {
    for (;;) {
      boost::system::error_code ec;
      const int number =
          co_await signals_.async_wait(asio::redirect_error(asio::use_awaitable, ec));
      if (ec) co_return;
      // Ctrl-C reaches the program by itself, which has the terminal.
      if (number == SIGINT)
        interrupted_ = true;
      else
        stop(Outcome::Preempted, "SIGTERM");
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
    for (;;) {
      const bool ended = has_ended();  // before looking: then everything is there
      const bool more = look();
      if (ended && !more) break;
      if (!ended) end_if_due();
      timer.expires_after(more ? Duration{0} : kLookEvery);  // the driver may say something
      boost::system::error_code ignored;
      co_await timer.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
    }
    ending_ = true;
    end();
    auto told = within(kDriverEndMax, driver_.sent());
    (void)co_await std::move(told);
    signals_.cancel();
    scope_.cancel();
    co_await scope_.join();
    context_.stop();
  }

  bool has_ended() {
    if (ended_) return true;
    pid_t pid = 0;
    do pid = ::waitpid(pid_, &status_, WNOHANG);
    while (pid < 0 && errno == EINTR);
    return ended_ = pid == pid_;
  }

  void end_if_due() {
    if (!stop_asked_) return;
    record_.ask_to_stop();  // again: a debugger may have started it anew
    if (clock_.now() < terminate_at_) return;
    ::kill(pid_, std::exchange(terminated_, true) ? SIGKILL : SIGTERM);
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
    for (const auto& sink : sinks_) {
      auto taken = sink->on_reports(reports);
      if (taken) taken = sink->flush();
      if (!taken) warn_once(taken.error());
    }
    if (const auto bytes = log_.size()) tell(progress_.logged(*bytes, moment()), /*newest=*/true);
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
    attempt.duration = summary_.duration;
    WorkerFailure failure{.kind = WIFSIGNALED(status_) ? EndKind::Killed : EndKind::Exited,
                          .rank = 0,
                          .node = host_name(),
                          .attempt = attempt.attempt};
    failure.end.signaled = WIFSIGNALED(status_);
    failure.end.status = WIFSIGNALED(status_) ? WTERMSIG(status_) : WEXITSTATUS(status_);
    failure.end.error = error_;
    if (failure.end.clean() || terminated_) {
      summary_.outcome = stop_asked_.value_or(Outcome::Succeeded);
    } else if (interrupted_) {
      summary_.outcome = Outcome::Interrupted;
      summary_.reason = "Ctrl-C";
    } else {
      summary_.outcome = Outcome::Failed;
      summary_.reason.clear();
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
  const bool outlives_driver_;
  MetricsLog log_;
  std::vector<std::unique_ptr<ReportSink>> sinks_;
  SystemClock clock_;
  Messages messages_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  Scope scope_;
  asio::signal_set signals_;
  DriverPort driver_;
  SoloRecord record_;
  Progress progress_;
  const RetentionPolicy retention_;
  RunSummary summary_;
  TimePoint began_{};
  pid_t pid_ = -1;
  int status_ = 0;
  std::optional<UserError> error_;                    // of the newest attempt
  std::map<std::uint64_t, Metrics> with_checkpoint_;  // reports whose checkpoint is not committed
  std::optional<Outcome> stop_asked_;                 // the end that it leads to
  TimePoint terminate_at_{};
  bool ended_ = false;  // the program
  bool terminated_ = false, interrupted_ = false, ending_ = false, warned_ = false;
};

}  // namespace

int run_solo_for_driver(const SoloProgram& program, const RunCommand& options) {
  const auto refuse = [&](const Error& error) {
    print_error(error);
    const int code = exit_code_of(error);
    tell_driver(options.driver_fd, refusal_event(code, error) + "\n");
    return code;
  };
  ::signal(SIGPIPE, SIG_IGN);
  PosixFileSystem fs;
  (void)fs.remove_file(program.folder.exit_json());  // of an earlier program
  auto log = MetricsLog::open(program.folder.metrics());
  if (!log) return refuse(log.error());
  auto sinks =
      open_report_sinks(program.spec.run_config.callbacks, program.folder,
                        std::chrono::system_clock::now(), "", {}, hparams_of(program.spec));
  if (!sinks) return refuse(sinks.error());
  SoloRun run(program, options, std::move(*log), std::move(*sinks));
  const auto pid = start(program);
  if (!pid) return refuse(pid.error());
  return run.run(*pid);
}

}  // namespace train
