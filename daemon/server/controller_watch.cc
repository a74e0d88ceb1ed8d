#include "daemon/server/controller_watch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/server/process_watch.h"
#include "lib/base/file_descriptor.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

constexpr Duration kTellLimit = seconds(1);
constexpr std::size_t kSaidBytesMax = 16u << 10;
constexpr Duration kLookLimit = seconds(5);

bool has_begun(const std::string& run_dir) {
  struct stat status {};
  return ::stat((run_dir + "/spec.resolved.yaml").c_str(), &status) == 0;
}

std::string text_of(const ControllerEnd& end) {
  switch (end.how) {
    case ControllerEnd::How::Exited:
      return fmt::format("exit code {}", end.exit_code);
    case ControllerEnd::How::Killed:
      return fmt::format("killed by signal {}", end.exit_code - 128);
    case ControllerEnd::How::Unknown:
      break;
  }
  return "its exit status is unknown";
}

}  // namespace

ControllerWatch::ControllerWatch(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                                 std::string runtime_dir, Log log, AccountOf account_of,
                                 std::function<void()> on_end)
    : executor_(std::move(executor)),
      scope_(scope),
      clock_(clock),
      runtime_dir_(std::move(runtime_dir)),
      log_(std::move(log)),
      account_of_(std::move(account_of)),
      on_end_(std::move(on_end)) {}

void ControllerWatch::resume_all() {
  for (const std::string& tag : list_controller_tags(runtime_dir_)) {
    const ControllerFiles files = controller_files(runtime_dir_, tag);
    auto note = read_note(files.note);
    if (!note) {
      remove_controller_files(files);
      continue;
    }
    auto run = std::make_shared<DetachedRun>();
    run->note = std::move(*note);
    run->files = files;
    run->started = clock_.now();
    if (run->note.uid) {
      auto account = account_of_(*run->note.uid);
      if (!account) {
        log_.error("a controller is not watched any more",
                   {{"run", run->note.request.run_dir}, {"why", account.error().describe()}});
        remove_controller_files(files);
        continue;
      }
      run->account = std::move(*account);
    }
    runs_[files.note] = run;
    log_.info("found a controller again",
              {{"run", run->note.request.run_dir}, {"pid", run->note.pid}});
    scope_.spawn("controller", hold(run));
  }
}

namespace {

/// Return whether the request is for what we do unasked once a controller has died.
bool asks_for_a_restart(const DetachController& request) {
  std::vector<std::string> again = request.resume_argv;
  std::erase(again, kRestartedOption);
  return request.argv == again;
}

}  // namespace

void ControllerWatch::detach(DetachController request, std::shared_ptr<Connection> asker) {
  for (const auto& [note, run] : runs_) {  // we may have resumed that run already
    if (run->note.request.run_dir != request.run_dir || !asks_for_a_restart(request) ||
        run->note.pid < 0 || run->note.takeover != DetachedNote::Takeover::None)
      continue;
    run->asker = std::move(asker);
    run->asker->send(encode(DetachedController{run->note.pid}));
    return;
  }
  auto run = std::make_shared<DetachedRun>();
  run->files = controller_files(runtime_dir_, new_tag());
  run->note.exit_at_detach = exit_mark(request.run_dir);
  run->note.request = std::move(request);
  run->asker = std::move(asker);
  if (const auto started = start(run); !started) {
    const Error& error = started.error();
    run->asker->send(
        encode(Refused{std::string(to_string(error.code)), error.message, error.hint}));
    remove_controller_files(run->files);
    return;
  }
  runs_[run->files.note] = run;
  scope_.spawn("controller", hold(run));
}

bool ControllerWatch::take_over(DetachController request, std::optional<UserAccount> account,
                                std::function<void(const ControllerEnd&)> on_end) {
  auto run = std::make_shared<DetachedRun>();
  run->files = controller_files(runtime_dir_, new_tag());
  run->note.takeover = DetachedNote::Takeover::Begun;
  run->note.request = std::move(request);
  if (account) run->note.uid = account->uid;
  run->account = std::move(account);
  run->on_end = std::move(on_end);
  if (const auto started = start(run); !started) {
    log_.warn("no controller", {{"why", started.error().describe()}});
    remove_controller_files(run->files);
    return false;
  }
  runs_[run->files.note] = run;
  scope_.spawn("controller", hold(run));
  return true;
}

std::string ControllerWatch::new_tag() const {
  return fmt::format("{:x}", clock_.wall().time_since_epoch().count());
}

Result<Unit> ControllerWatch::start(const std::shared_ptr<DetachedRun>& run) {
  const DetachController& asked = run->note.request;
  const bool again = run->started != TimePoint{};
  run->started = clock_.now();  // also of one that cannot be started: its life counts as none
  SpawnRequest request;
  const bool begun = run->note.takeover == DetachedNote::Takeover::None
                         ? has_begun(asked.run_dir)
                         : run->note.takeover == DetachedNote::Takeover::Done;
  request.argv = begun && again ? asked.resume_argv : asked.argv;
  request.working_dir = asked.working_dir;
  request.env = asked.env;
  request.account = run->account;
  request.die_with_parent = false;
  request.rules.ignored_signals = {SIGHUP};
  request.rules.killed_for_memory_like_others = true;
  const auto pid = spawn(run, std::move(request));
  run->ours = pid.has_value();
  run->note.pid = pid ? *pid : -1;
  run->note.pid_start = pid ? process_start(*pid) : "";
  if (const auto written = write_note(run->files.note, run->note); !written)
    log_.error("a later traind will not find this controller",
               {{"why", written.error().describe()}});
  if (!pid) return pid.error();
  log_.info("started a controller", {{"run", asked.run_dir}, {"pid", *pid}});
  if (run->asker) run->asker->send(encode(DetachedController{*pid}));
  return Unit{};
}

// The controller logs to a file of ours until it owns the run, and into the run's folder
// afterwards. So if that file is empty, it got that far. One that takes over may be another user's
// process, which could fill the disk with such a file: it gets a pipe. While it lives, the end of
// the pipe means that it owns the run.
Result<pid_t> ControllerWatch::spawn(const std::shared_ptr<DetachedRun>& run,
                                     SpawnRequest request) {
  if (run->note.takeover == DetachedNote::Takeover::None) {
    const FileDescriptor log(
        ::open(run->files.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600));
    if (log.get() < 0) return system_error(errno, "creating " + run->files.log);
    request.stdout_fd = request.stderr_fd = log.get();
    return spawn_process(executor_, request);
  }
  int ends[2] = {-1, -1};
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  FileDescriptor read_end(ends[0]);
  const FileDescriptor write_end(ends[1]);
  request.stdout_fd = request.stderr_fd = write_end.get();
  TRY(const pid_t pid, spawn_process(executor_, request));
  scope_.spawn("controller's output", keep_said(run, read_end.release()));
  return pid;
}

asio::awaitable<void> ControllerWatch::keep_said(std::shared_ptr<DetachedRun> run, int pipe) {
  asio::posix::stream_descriptor source(executor_, pipe);
  std::array<char, kSaidBytesMax> text{};
  run->said.clear();
  for (;;) {
    const auto [error, size] =
        co_await source.async_read_some(asio::buffer(text), asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::operation_aborted) co_return;
    if (error) break;
    run->said.append(text.data(), size);
    if (run->said.size() > kSaidBytesMax) run->said.erase(0, run->said.size() - kSaidBytesMax);
  }
  if (!goes_on(run->note.pid)) co_return;
  run->note.takeover = DetachedNote::Takeover::Done;
  (void)write_note(run->files.note, run->note);
}

/// Return whether the run of one that has taken over has ended. Its storage may hang.
Task<bool> ControllerWatch::has_ended(std::shared_ptr<DetachedRun> run) {
  auto looking = run_unjoined<bool>(
      [path = run->note.request.run_dir, account = run->account]() -> Result<bool> {
        return !exit_mark(path, account).empty();
      });
  co_return co_await within(kLookLimit, std::move(looking));
}

std::string ControllerWatch::said_of(const DetachedRun& run) {
  return run.note.takeover == DetachedNote::Takeover::None ? tail_of(run.files.log) : run.said;
}

Task<ControllerEnd> ControllerWatch::end_of(std::shared_ptr<DetachedRun> run) {
  ControllerEnd end;
  if (run->ours) {
    auto status = co_await wait_for_end(executor_, run->note.pid);
    if (!status) co_return status.error();
    end.how = status->signaled ? ControllerEnd::How::Killed : ControllerEnd::How::Exited;
    end.exit_code = status->signaled ? 128 + status->status : status->status;
  } else if (run->note.pid > 0) {
    auto gone = co_await wait_until_gone(executor_, run->note.pid, run->note.pid_start);
    if (!gone) co_return gone.error();
  }
  if (run->note.takeover == DetachedNote::Takeover::None) {
    const std::string mark = exit_mark(run->note.request.run_dir);
    end.run_ended = !mark.empty() && mark != run->note.exit_at_detach;
  } else if (run->note.takeover == DetachedNote::Takeover::Done) {
    auto looking = has_ended(run);
    const auto ended = co_await std::move(looking);
    if (!ended && ended.error().code == Errc::Cancelled) co_return ended.error();
    end.run_ended = ended && *ended;
  }
  co_return end;
}

asio::awaitable<void> ControllerWatch::hold(std::shared_ptr<DetachedRun> run) {
  for (;;) {
    auto end = co_await end_of(run);
    if (!end) co_return;  // traind is exiting
    run->ours = false;
    run->note.pid = -1;
    const bool votes = run->note.takeover == DetachedNote::Takeover::Begun;
    const auto pause = votes ? std::nullopt : run->policy.ended(*end, clock_.now() - run->started);
    log_.info(
        "a controller ended",
        {{"run", run->note.request.run_dir}, {"how", text_of(*end)}, {"said", said_of(*run)}});
    if (!pause) {
      co_return co_await forget(run, *end);
    }
    if (*pause > Duration{0}) {
      const auto paused = co_await pause_for(*pause);
      if (!paused) co_return;
    }
    if (const auto started = start(run); !started)
      log_.warn("no controller", {{"why", started.error().describe()}});
  }
}

asio::awaitable<void> ControllerWatch::forget(std::shared_ptr<DetachedRun> run, ControllerEnd end) {
  if (run->asker) {
    run->asker->send(encode(ControllerEnded{end.exit_code, said_of(*run)}));
    (void)co_await within(kTellLimit, run->asker->flush());  // a private traind exits after this
  }
  remove_controller_files(run->files);
  runs_.erase(run->files.note);
  if (run->on_end) run->on_end(end);
  on_end_();
}

}  // namespace train
