// Starts the supervisors of this node, finds them again after our own restart, reads their links,
// and reaps what they leave behind. NodeAgent decides what follows from that.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "daemon/core/node_agent.h"
#include "daemon/server/supervisor_files.h"
#include "daemon/server/worker_spaces.h"
#include "lib/base/open_files.h"
#include "lib/base/time.h"
#include "lib/net/connection.h"
#include "lib/net/scope.h"
#include "lib/observe/log.h"

namespace train {

/// Limit on the bytes that are queued for a launcher that asks but does not read, or for a
/// supervisor. Beyond it, the link ends.
inline constexpr std::size_t kUnreadBytesMax = 256u << 20;

class Supervisors {
 public:
  using Link = std::shared_ptr<Connection>;
  struct Folders {
    std::string runtime_dir, spool_dir;
  };
  /// Returns the link of the launcher that a frame of the attempt goes to, or null for none.
  using RouteUp = std::function<Link(const AttemptKey& key, const Frame& frame)>;
  using Feed = std::function<void(const NodeEvent&)>;

  Supervisors(asio::any_io_executor executor, Scope& scope, Folders folders, WorkerSpaces& spaces,
              Log log, RouteUp route_up, Feed feed)
      : executor_(executor),
        scope_(scope),
        folders_(std::move(folders)),
        spaces_(spaces),
        log_(std::move(log)),
        route_up_(std::move(route_up)),
        feed_(std::move(feed)) {}

  Result<Unit> spawn(const SpawnSupervisor& action, const WorkerSpace& space);
  /// Connect to the supervisors that an earlier traind left. Each causes an AdoptionBegun and an
  /// AdoptionEnded.
  void adopt_all();
  /// Return the link to a supervisor, or null if there is none.
  Link link(const AttemptKey& key) const;
  void prepare(const AttemptKey& key, const PrepareAttempt& message);
  /// Kill what is left of the attempt, then feed AttemptLeftoversReaped.
  void reap_leftovers(const AttemptKey& key);

  /// Return whether the run's supervisors read what they are sent: none has left more than
  /// kUnreadBytesMax unread.
  bool keep_up(const std::string& run_id) const;
  /// Return the runs whose supervisors live.
  std::set<std::string> living_runs() const;
  /// Return an attempt of the run that runs here as a user other than `uid`, and that user.
  std::optional<std::pair<Attempt, uid_t>> as_another_user(const std::string& run_id,
                                                           uid_t uid) const;

 private:
  Result<std::pair<pid_t, Link>> spawn_process_of(const SpawnSupervisor& action,
                                                  const SupervisorFiles& files,
                                                  const WorkerSpace& space);
  asio::awaitable<void> log_stderr(std::string user, int pipe);
  asio::awaitable<void> serve(AttemptKey key, Link link, bool ours);
  asio::awaitable<void> end_without_link(AttemptKey key);
  asio::awaitable<void> watch(AttemptKey key, pid_t pid);
  asio::awaitable<void> adopt(SupervisorFiles files);
  asio::awaitable<Link> reach(SupervisorFiles files);
  asio::awaitable<std::optional<SupervisorHello>> hear(Link link, SupervisorFiles files);
  asio::awaitable<void> reap_attempt_leftovers(AttemptKey key, SupervisorFiles files);
  asio::awaitable<void> reap_leftovers(SupervisorFiles files, std::vector<std::string> marks);
  void forget(const SupervisorFiles& files);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Folders folders_;
  WorkerSpaces& spaces_;
  Log log_;
  const RouteUp route_up_;
  const Feed feed_;
  SystemClock clock_;
  ReservedFiles reserved_{16};  // descriptors for starting a supervisor
  std::map<AttemptKey, Link> links_;
  std::map<AttemptKey, pid_t> children_;
  std::map<AttemptKey, SupervisorFiles> files_;
};

}  // namespace train
