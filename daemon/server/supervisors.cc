#include "daemon/server/supervisors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/core/launcher_orders.h"
#include "daemon/server/supervisor_command.h"
#include "daemon/supervisor/limits/cgroup.h"
#include "daemon/supervisor/processes/adopted.h"
#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/file_descriptor.h"
#include "lib/net/listener.h"
#include "lib/net/peer_user.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

// For one launcher. Beyond this, its supervisors wait.
constexpr std::size_t kRelayQueueBytesMax = 8u << 20;
constexpr std::size_t kStderrBytesMax = 64u << 10;  // of one supervisor, in our log
constexpr Duration kHelloExpected = seconds(5);  // for a supervisor's answer, after our own restart
constexpr Duration kHelloLimit = seconds(25);    // in addition; then we kill it
constexpr Duration kReachAgainAfter = milliseconds(200);
constexpr Duration kReapEvery = milliseconds(2), kReapEveryAtLast = milliseconds(100);
constexpr Duration kEndAfterLink = seconds(2);  // from the end of its link to that of its process
constexpr Duration kReapLimit = seconds(30);    // a driver may need seconds to free a GPU's memory

/// Kill the process that, according to the kernel, opened the supervisor's socket for listening. It
/// may have ended since, and another process may have its pid, so kill only one that has the
/// supervisor's uid.
void end_process(const Connection& supervisor, const SupervisorFiles& files) {
  const auto who = supervisor.credentials();
  if (!who) return;
  const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, who->pid, 0)));
  struct stat found {};
  if (::stat(fmt::format("/proc/{}", who->pid).c_str(), &found) != 0 || found.st_uid != files.uid)
    return;
  if (process.get() < 0)  // no descriptor is left
    ::kill(who->pid, SIGKILL);
  else
    ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
}

}  // namespace

// ---- orders

Result<Unit> Supervisors::spawn(const SpawnSupervisor& action, const WorkerSpace& space) {
  const SupervisorFiles files =
      supervisor_files(folders_.runtime_dir, folders_.spool_dir, action.key, space.uid);
  files_[action.key] = files;
  reserved_.release();
  auto spawned = spawn_process_of(action, files, space);
  reserved_.refill();
  if (!spawned) return spawned.error();
  auto& [pid, link] = *spawned;
  children_[action.key] = pid;
  link->send(encode(action.message, action.key.attempt));
  links_[action.key] = link;  // frames wait in the socket until the supervisor reads
  scope_.spawn("supervisor", serve(action.key, link, true));
  scope_.spawn("watch supervisor", watch(action.key, pid));
  return Unit{};
}

/// Start the supervisor. Returns its pid, and our end of the link to it.
Result<std::pair<pid_t, Supervisors::Link>> Supervisors::spawn_process_of(
    const SpawnSupervisor& action, const SupervisorFiles& files, const WorkerSpace& space) {
  TRY(const FileDescriptor socket, bind_unix_socket(executor_, files.socket));
  int pair[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return system_error(errno, "making a socket pair");
  const FileDescriptor theirs(pair[1]);
  TRY(auto link, Connection::adopt(executor_, pair[0]));
  const std::string data = space.data.folder_of(action.key.run_id).value_or(files.spool + "/data");
  SpawnRequest request =
      supervisor_command(action, files, data, theirs.get(), socket.get(), space.account);
  int ends[2] = {-1, -1};
  if (space.account && ::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  FileDescriptor read_end(ends[0]);
  const FileDescriptor write_end(ends[1]);
  if (space.account) request.stderr_fd = write_end.get();
  TRY(const pid_t pid, spawn_process(executor_, request));
  if (space.account)
    scope_.spawn("supervisor's stderr", log_stderr(space.account->name, read_end.release()));
  return std::pair<pid_t, Link>(pid, std::move(link));
}

/// Log what another user's supervisor writes to stderr, under that user's name: that supervisor
/// must not write to our log directly.
asio::awaitable<void> Supervisors::log_stderr(std::string user, int pipe) {
  asio::posix::stream_descriptor source(executor_, pipe);
  std::array<char, 4096> text{};
  for (std::size_t logged = 0;;) {
    const auto [error, size] =
        co_await source.async_read_some(asio::buffer(text), asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    if (logged < kStderrBytesMax)
      log_.warn("a supervisor wrote to stderr",
                {{"user", user}, {"text", std::string(text.data(), size)}});
    logged += size;
  }
}

std::shared_ptr<Connection> Supervisors::link(const AttemptKey& key) const {
  const auto found = links_.find(key);
  return found == links_.end() ? nullptr : found->second;
}

void Supervisors::prepare(const AttemptKey& key, const PrepareAttempt& message) {
  const Link to = link(key);
  if (!to) return;
  limit_attempt_of_user(files_[key], message);
  to->send(encode(message, key.attempt));
}

bool Supervisors::keep_up(const std::string& run_id) const {
  return std::none_of(links_.begin(), links_.end(), [&](const auto& entry) {
    return entry.first.run_id == run_id && entry.second->queued_bytes() > kUnreadBytesMax;
  });
}

std::set<std::string> Supervisors::living_runs() const {
  std::set<std::string> runs;
  for (const auto& [key, link] : links_) runs.insert(key.run_id);
  for (const auto& [key, pid] : children_) runs.insert(key.run_id);
  return runs;
}

std::optional<std::pair<Attempt, uid_t>> Supervisors::as_another_user(const std::string& run_id,
                                                                      uid_t uid) const {
  for (const auto& [key, files] : files_) {
    if (key.run_id == run_id && files.uid != uid) return std::pair(key.attempt, files.uid);
  }
  return std::nullopt;
}

// ---- living supervisors

asio::awaitable<void> Supervisors::serve(AttemptKey key, Link link, bool ours) {
  for (;;) {
    auto frame = co_await link->receive();
    if (!frame) break;
    if (frame->type == MessageType::SupervisorHello) {
      auto hello = decode<SupervisorHello>(*frame);
      if (!hello || !check_order(*hello) ||
          AttemptKey{hello->run_id, Attempt{hello->attempt}} != key)
        break;
      const auto known = links_.find(key);
      if (known == links_.end() || known->second != link) break;  // its process has ended
      if (link->queued_bytes() > kUnreadBytesMax) break;
      feed_(SupervisorUp{key, std::move(*hello)});
      continue;
    }
    if (!is_relayed(frame->type) || frame->attempt != key.attempt) continue;
    const Link to = route_up_(key, *frame);
    if (!to) continue;  // it sends everything again when a launcher attaches
    to->send(*frame);
    if (to->queued_bytes() > kRelayQueueBytesMax)
      (void)co_await to->wait_queue_below(kRelayQueueBytesMax / 2);
  }
  if (const auto found = links_.find(key); found != links_.end() && found->second == link)
    links_.erase(found);
  if (!ours) feed_(SupervisorDown{key, "it ended"});  // for our own child, watch() does this
  if (ours) co_await end_without_link(key);
}

// One that lives on without a link, because what it sent could not be read, would be heard of no
// more, and its run would wait for it forever.
asio::awaitable<void> Supervisors::end_without_link(AttemptKey key) {
  const auto paused = co_await pause_for(kEndAfterLink);  // named, because of a bug of g++ 12
  const auto child = children_.find(key);
  if (paused.has_error() || child == children_.end() || links_.contains(key)) co_return;
  log_.error("a supervisor lost its link and did not end: it is killed",
             {{"run", key.run_id}, {"pid", child->second}});
  ::kill(child->second, SIGKILL);
}

asio::awaitable<void> Supervisors::watch(AttemptKey key, pid_t pid) {
  const auto status = co_await wait_for_end(executor_, pid);
  if (!status && status.error().code == Errc::Cancelled) co_return;
  children_.erase(key);
  if (const auto link = links_.extract(key); !link.empty()) link.mapped()->close();
  const std::string how = !status            ? status.error().describe()
                          : status->signaled ? fmt::format("killed by signal {}", status->status)
                                             : fmt::format("exit code {}", status->status);
  log_.info("supervisor ended",
            {{"attempt", static_cast<std::int64_t>(key.attempt.value)}, {"how", how}});
  feed_(SupervisorDown{key, how});
}

// ---- after our own restart

void Supervisors::adopt_all() {
  for (const SupervisorFiles& files :
       list_supervisor_files(folders_.runtime_dir, folders_.spool_dir)) {
    feed_(AdoptionBegun{});
    scope_.spawn("adopt", adopt(files));
  }
}

// Adopt a supervisor. The node offers nothing until each has reported what it holds, or is gone:
// its workers may use what the node would offer.
asio::awaitable<void> Supervisors::adopt(SupervisorFiles files) {
  const Link link = co_await reach(files);
  std::optional<SupervisorHello> hello;  // separate: g++ 12 destroys temporaries of a ?: twice
  if (link) hello = co_await hear(link, files);
  if (!hello) {
    log_.info("killing the processes that a dead supervisor left behind",
              {{"socket", files.socket}});
    co_await reap_leftovers(files, {});  // another process has adopted its orphans by now
    feed_(AdoptionEnded{});
    co_return;
  }
  log_.info("found a supervisor again", {{"socket", files.socket}});
  const AttemptKey key{hello->run_id, Attempt{hello->attempt}};
  links_[key] = link;
  files_[key] = files;
  PrepareAttempt granted;  // its own group lost its limits if `traind cgroup release` has run
  granted.local_world_size = 1;
  granted.per_worker = granted.claimed = hello->claimed;
  limit_attempt_of_user(files, granted);
  feed_(SupervisorUp{key, std::move(*hello)});
  feed_(AdoptionEnded{});
  co_await serve(key, link, false);
}

/// Connect to a supervisor. Return null if nothing listens there any more. Any other error (such as
/// a lack of descriptors) says nothing about the supervisor and is temporary: try again.
asio::awaitable<Supervisors::Link> Supervisors::reach(SupervisorFiles files) {
  for (bool said = false;; said = true) {
    auto connection =
        co_await Connection::connect(executor_, Endpoint::unix_socket(files.socket), seconds(5));
    if (connection && check_peer_user(**connection, files.uid)) co_return std::move(*connection);
    if (connection || connection.error().code == Errc::Unavailable) co_return nullptr;
    if (!said)
      log_.warn("cannot reach a supervisor yet; offering no resources until then",
                {{"socket", files.socket}, {"why", connection.error().describe()}});
    const auto woken = co_await pause_for(kReachAgainAfter);
    if (!woken) co_return nullptr;
  }
}

/// Return the supervisor's hello, or nothing if it is gone. Kill a supervisor that is silent for
/// too long: it may be stopped or stuck, and its workers occupy the node.
asio::awaitable<std::optional<SupervisorHello>> Supervisors::hear(Link link,
                                                                  SupervisorFiles files) {
  auto frame = co_await within(kHelloExpected, link->receive());
  if (!frame && frame.error().code == Errc::Timeout) {
    log_.warn("a supervisor does not answer; offering no resources until it answers or ends",
              {{"supervisor", link->peer()}, {"socket", files.socket}});
    frame = co_await within(kHelloLimit, link->receive());
  }
  if (!frame && frame.error().code == Errc::Timeout) {
    log_.error("killing a supervisor that does not answer", {{"supervisor", link->peer()}});
    end_process(*link, files);
    // Wait for its end, however long the kernel needs. Another user's supervisor may have passed
    // its link on to a living process, so that the link never ends.
    if (files.uid == ::geteuid())
      frame = co_await link->receive();
    else
      frame = co_await within(kHelloExpected, link->receive());
  }
  if (!frame || frame->type != MessageType::SupervisorHello) co_return std::nullopt;
  auto hello = decode<SupervisorHello>(*frame);
  // A supervisor of another user could claim to belong to somebody else's run.
  if (!hello || !check_order(*hello) ||
      supervisor_files(folders_.runtime_dir, folders_.spool_dir,
                       {hello->run_id, Attempt{hello->attempt}}, files.uid) != files) {
    end_process(*link, files);
    co_return std::nullopt;
  }
  co_return std::move(*hello);
}

// ---- leftovers of a dead supervisor

void Supervisors::reap_leftovers(const AttemptKey& key) {
  const auto files = files_.extract(key);
  if (files.empty()) return feed_(AttemptLeftoversReaped{key});
  scope_.spawn("reap leftovers", reap_attempt_leftovers(key, files.mapped()));
}

asio::awaitable<void> Supervisors::reap_attempt_leftovers(AttemptKey key, SupervisorFiles files) {
  std::vector<std::string> marks{"TRAINRUN_RUN_ID=" + key.run_id,
                                 fmt::format("TRAINRUN_ATTEMPT={}", key.attempt.value)};
  co_await reap_leftovers(std::move(files), std::move(marks));
  feed_(AttemptLeftoversReaped{key});
}

// Kill and remove what a dead supervisor left. Killed processes take a moment to be gone; until
// then we can neither remove the folder nor reap the zombies that come to us. `marks`: environment
// variables of its workers, because as pid 1 we also adopt processes that belong to no run.
asio::awaitable<void> Supervisors::reap_leftovers(SupervisorFiles files,
                                                  std::vector<std::string> marks) {
  const bool ours = files.uid == ::geteuid();
  const auto cgroup = Cgroup::existing(files.cgroup);
  const auto kill_orphans = [&] {
    if (ours) return marks.empty() ? 0 : kill_adopted(marks);
    const bool others = std::any_of(files_.begin(), files_.end(), [&](const auto& attempt) {
      return attempt.second.uid == files.uid;
    });
    return cgroup || others ? 0 : kill_adopted_of(files.uid);
  };
  const auto kill_all = [&] {
    if (cgroup) cgroup->kill();
    return kill_orphans() > 0 || (cgroup && cgroup->populated());
  };
  const TimePoint give_up = clock_.now() + kReapLimit;
  for (Duration pause = kReapEvery; kill_all(); pause = std::min(2 * pause, kReapEveryAtLast)) {
    if (clock_.now() >= give_up) {
      log_.error("processes of a dead supervisor do not end; the node offers again what they use",
                 {{"socket", files.socket}});
      break;
    }
    const auto paused = co_await pause_for(pause);  // named, because of a bug of g++ 12
    if (paused.has_error()) break;
  }
  if (cgroup) cgroup->remove();
  // Not here: its files, such as those of a checkpoint, decide how long it takes.
  spaces_.of(files.uid).data.remove_later(
      files.spool, [this, files] { asio::post(executor_, [this, files] { forget(files); }); });
}

/// Remove the socket, which leads a later traind to the other files, unless the attempt has a new
/// supervisor, which listens there.
void Supervisors::forget(const SupervisorFiles& files) {
  const bool used = std::any_of(files_.begin(), files_.end(),
                                [&](const auto& attempt) { return attempt.second == files; });
  if (!used) ::unlink(files.socket.c_str());
}

}  // namespace train
