#include "launcher/cluster/run/detached_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <thread>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/run/failover_note.h"
#include "lib/base/terminal_text.h"
#include "lib/net/control_call.h"
#include "lib/net/runtime_dir.h"
#include "lib/net/scope.h"
#include "lib/net/within.h"
#include "lib/storage/run_lock.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

// In the run's folder: where its private traind is.
constexpr int kSharedDaemonLooksMax = 200;
constexpr auto kSharedDaemonLookEvery = milliseconds(50);
constexpr std::string_view kDaemonNote = ".daemon";
// Also there, while a traind runs its controller.
constexpr std::string_view kDetachedNote = ".detached";
constexpr Duration kPollEvery = milliseconds(20);

asio::awaitable<void> ask_to_detach(asio::any_io_executor executor, const DetachRequest& request,
                                    Result<DetachOutcome>* result) {
  auto connection =
      co_await call_traind(executor, request.runtime_dir, request.build, request.timeout);
  if (!connection) {
    Error error = connection.error();
    if (error.hint.empty()) error.hint = "start one, or leave --runtime-dir out";
    *result = std::move(error);
    co_return;
  }
  const auto peer = (*connection)->credentials();
  if (!peer || peer->uid != ::geteuid()) {
    *result = Error{Errc::Unavailable,
                    fmt::format("the traind in {} belongs to another user", request.runtime_dir),
                    "give the --runtime-dir of your own traind"};
    co_return;
  }
  (*connection)->send(encode(request.message));
  for (pid_t controller = 0;;) {
    if (controller > 0 && request.owns_run(controller)) {
      *result = DetachOutcome{true, 0, ""};
      co_return;
    }
    auto frame = co_await within(kPollEvery, (*connection)->receive());
    if (!frame) {
      if (frame.error().code == Errc::Timeout) continue;
      *result = frame.error();
      co_return;
    }
    if (frame->type == MessageType::DetachedController) {
      if (auto detached = decode<DetachedController>(*frame))
        controller = static_cast<pid_t>(detached->pid);
    } else if (frame->type == MessageType::ControllerEnded) {
      auto ended = decode<ControllerEnded>(*frame);
      if (!ended) continue;
      // The controller said nothing here, so it continued in the run's own log, and may even have
      // ended the run since.
      const bool was_up = ended->said.empty() && request.has_ended();
      *result = DetachOutcome{was_up, ended->exit_code, ended->said};
      co_return;
    } else if (frame->type == MessageType::Refused) {
      auto refused = decode<Refused>(*frame);
      *result = Error{Errc::Unavailable, refused ? refused->message : "traind refused", ""};
      co_return;
    }
  }
}

}  // namespace

Result<std::optional<PrivateDaemon>> private_daemon_of(const RunOptions& options, bool must,
                                                       const std::string& workers_of) {
  const JobSpec& spec = options.parsed.spec;
  std::optional<PrivateDaemon> daemon;
  if (!options.shared_daemon.empty()) {
    // Whoever keeps it may be starting it again just now.
    for (int looks = 0; looks < kSharedDaemonLooksMax && !daemon; ++looks) {
      if (looks > 0) std::this_thread::sleep_for(kSharedDaemonLookEvery);
      daemon = PrivateDaemon::at(options.shared_daemon);
    }
    if (!daemon)
      return Error{Errc::NotFound, fmt::format("the folder {} is gone", options.shared_daemon)};
    return daemon;
  }
  if (!options.private_daemon.empty()) {
    daemon = PrivateDaemon::at(options.private_daemon);
    if (!daemon) {
      return Error{Errc::NotFound, fmt::format("the folder {} is gone", options.private_daemon),
                   "start the run again"};
    }
  } else if (spec.cluster.names_nodes() && !must) {
    return daemon;
  } else {
    const std::string folder = run_path(spec.run_config.storage_path, spec.run_config.name);
    const std::string note = join_path(folder, kDaemonNote);
    if (!options.unique_name) daemon = PrivateDaemon::find(note);
    if (!daemon && !options.unique_name) PrivateDaemon::clean_up_lost(note);
    if (!daemon && !workers_of.empty())
      daemon = PrivateDaemon::find(join_path(workers_of, kDaemonNote));
    if (!daemon) daemon.emplace();
  }
  if (daemon->ended()) TRY_VOID(daemon->start());
  return daemon;
}

std::string user_runtime_dir() { return default_runtime_dir(); }

void remember_daemon(const PrivateDaemon& daemon, const RunFolder& folder) {
  daemon.remember(join_path(folder.path(), kDaemonNote));
}

Result<Unit> begin_detached(const RunFolder& folder) {
  const std::string path = join_path(folder.path(), "launcher.log");
  const int log = ::open(path.c_str(),
                         O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (log < 0) return system_error(errno, "opening " + path);
  struct stat status {};
  if (::fstat(log, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(log);
    return system_error(EINVAL, path + " is no file");
  }
  remove_failover_notes(folder);  // of earlier controllers
  std::fflush(nullptr);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::close(log);
  const std::string note = join_path(folder.path(), kDetachedNote);
  const int fd = ::open(note.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(errno, "creating " + note);
  ::close(fd);
  return Unit{};
}

void end_detached(const RunFolder& folder) {
  remove_failover_notes(folder);
  ::unlink(join_path(folder.path(), kDetachedNote).c_str());
}

bool is_detached(const RunFolder& folder) {
  return ::access(join_path(folder.path(), kDetachedNote).c_str(), F_OK) == 0;
}

bool may_fail_over(const RunFolder& folder) {
  const auto note = is_detached(folder) ? read_failover_note(folder)
                                        : Result<FailoverNote>(Error{Errc::NotFound, ""});
  return note && !note->ready.empty();
}

std::string left_text(const RunFolder& folder) {
  const bool detached = is_detached(folder);
  std::string what = "its train-run has died";
  if (detached) {
    auto daemon = PrivateDaemon::find(join_path(folder.path(), kDaemonNote));
    if (daemon && !daemon->ended())
      return "interrupted: its controller has died; its traind is starting another";
    what = daemon ? "its controller and its traind have died"
                  : "its controller has died, and no traind has started another yet";
    const auto note = read_failover_note(folder);
    if (note && !note->ready.empty())
      what = fmt::format("its controller on {} is gone, and {} has not taken over yet", note->host,
                         fmt::join(note->ready, " or "));
  }
  return fmt::format(
      "interrupted: {}; `train-run resume {}{}` finds its workers, or continues from the newest "
      "checkpoint",
      what, detached ? "--detach " : "", shell_word(location_of_run(folder)));
}

Result<DetachOutcome> detach_controller(const DetachRequest& request) {
  asio::io_context context;
  Scope scope(context.get_executor());
  Result<DetachOutcome> result = DetachOutcome{};
  scope.spawn("detach", ask_to_detach(context.get_executor(), request, &result));
  context.run();
  return result;
}

}  // namespace train
