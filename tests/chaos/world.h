// The real processes of one round: four nodes in network namespaces, a launcher beside them, and an
// operator's upkeep: it restarts a traind that died, and resumes a killed run.
#pragma once

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/chaos/plan.h"
#include "tests/e2e/cluster.h"
#include "tests/e2e/multi_node.h"
#include "tests/e2e/netns.h"

namespace train::chaos {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
inline TimePoint after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(e2e::Seconds(seconds));
}

inline constexpr double kNodeDeadAfter = 4, kOrphanTimeout = 20;
inline constexpr const char* kRun = "chaos";

/// Return the path of libfaketime, or "" if it is not installed.
std::string fake_clock_library();

class World {
 public:
  explicit World(const Shape& shape);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  const Shape& shape() const { return shape_; }
  e2e::Cluster& cluster() { return *cluster_; }
  const e2e::Network& network() const { return *network_; }

  void start_all();
  /// Restart or resume processes as needed. Return one line for each problem found.
  std::vector<std::string> tick();
  bool run_ended() const { return exit_code_.has_value(); }
  int exit_code() const { return exit_code_.value_or(-1); }

  // ---- processes
  std::optional<pid_t> launcher_pid();
  std::vector<pid_t> drivers() const;  // one at most
  std::optional<pid_t> daemon_pid(int node);
  std::vector<pid_t> supervisors_on(int node) const;
  std::vector<pid_t> workers_on(int node) const;
  std::vector<pid_t> workers() const;
  std::vector<e2e::Seen> all_workers() const;
  bool is_ours(pid_t pid) const;
  std::string runtime_dir(int node) const;
  std::string spool_dir(int node) const;

  // ---- faults
  void kill_launcher(double back_after);
  void kill_daemon(int node, double back_after);
  void kill_node(int node, double back_after);
  /// Tell traind to drain and leave; start it again `back_after` seconds after it has left.
  void drain_daemon(int node, double back_after);
  void filter(int node, const std::string& name, const std::string& hook, const std::string& rule);
  void unfilter(int node, const std::string& name);
  void delay_link(int node, int milliseconds);
  void reset_link(int node);
  void step_clock(int seconds);

  /// Send SIGINT to all trainds. Return the processes that are left afterwards.
  std::vector<e2e::Seen> take_down();
  /// Keep the folder from being removed. Return its new path.
  std::string keep_folder();

 private:
  struct Node {
    std::optional<TimePoint> start_at;  // set when traind was killed
    std::optional<double> drained_back_after;
  };

  void write_job() const;
  void start_launcher();
  void start_relay();
  void write_relay_control() const;
  void write_clock() const;
  std::string hosts() const;
  bool run_can_be_resumed() const;
  void tick_launcher(std::vector<std::string>& problems);
  void tick_daemon(int node, std::vector<std::string>& problems);
  void in_namespace(int node, const std::string& nft);

  const Shape shape_;
  std::unique_ptr<e2e::Network> network_;
  std::unique_ptr<e2e::Cluster> cluster_;
  std::unique_ptr<e2e::Nodes> nodes_;
  std::array<Node, Shape::kNodes> states_;
  std::array<int, Shape::kNodes> delays_{}, resets_{};
  int clock_offset_ = 0;
  e2e::Process* launcher_ = nullptr;
  std::optional<TimePoint> resume_at_;  // set when the launcher was killed
  std::optional<int> exit_code_;
};

}  // namespace train::chaos
