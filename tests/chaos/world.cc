#include "tests/chaos/world.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>

namespace train::chaos {
namespace {

constexpr int kRelayPort = 7171;  // on the hub, for node 0
constexpr e2e::Seconds kTakeDownLimit{20};
constexpr const char* kDrainGrace = "5s";

std::string program(const std::string& name) { return e2e::program(name); }

void put_file(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::rename((path + ".new").c_str(), path.c_str());
}

}  // namespace

std::string fake_clock_library() {
  for (const char* path : {"/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
                           "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1"}) {
    if (e2e::exists(path)) return path;
  }
  return "";
}

World::World(const Shape& shape)
    : shape_(shape),
      network_(std::make_unique<e2e::Network>(Shape::kNodes)),
      cluster_(std::make_unique<e2e::Cluster>()),
      nodes_(std::make_unique<e2e::Nodes>(*cluster_, *network_, Shape::kNodes)) {}

World::~World() {
  nodes_.reset();
  cluster_.reset();  // its processes keep the namespaces alive
}

std::string World::runtime_dir(int node) const {
  return cluster_->path(fmt::format("rt-n{}", node));
}
std::string World::spool_dir(int node) const { return cluster_->path(fmt::format("sp-n{}", node)); }

std::string World::hosts() const {
  if (!shape_.relayed) return nodes_->hosts(Shape::kNodes);
  std::string text;
  for (int node = 0; node < Shape::kNodes; ++node)
    text += fmt::format("{}127.0.0.1:{}", node == 0 ? "" : ",", kRelayPort + node);
  return text;
}

void World::write_job() const {
  const std::string workers =
      shape_.elastic() ? fmt::format("{{min: {}, max: {}}}", shape_.workers_min, shape_.workers_max)
                       : fmt::format("{}", shape_.workers_max);
  (void)cluster_->job(
      kRun,
      fmt::format("command: [{}]\nbackend: none\nscaling_config: {{num_workers: {}, "
                  "standby_workers: {}}}\n"
                  "train_loop_config: {{steps: {}, step_ms: {}, checkpoint_every: {}, agree: {}}}",
                  program("chaos_worker"), workers, shape_.standbys, shape_.steps, shape_.step_ms,
                  shape_.checkpoint_every, shape_.agrees),
      fmt::format("  failure_config: {{max_failures: -1, node_suspect_after: 1s, node_dead_after: "
                  "{}s, orphan_timeout: {}s, stop_grace: 2s, backoff: {{initial: 100ms, max: "
                  "1s}}}}\n  checkpoint_config: {{num_to_keep: 3}}\n",
                  kNodeDeadAfter, kOrphanTimeout));
}

void World::start_all() {
  write_job();
  write_clock();
  nodes_->start_all();
  if (shape_.relayed) start_relay();
  start_launcher();
}

void World::start_relay() {
  write_relay_control();
  std::vector<std::string> argv{program("chaos_relay"), cluster_->path("relay")};
  for (int node = 0; node < Shape::kNodes; ++node)
    argv.push_back(fmt::format("127.0.0.1:{}={}", kRelayPort + node, nodes_->endpoint(node)));
  e2e::StartOptions options;
  options.prefix = network_->on_hub();
  e2e::Process& relay = cluster_->start(argv, options);
  (void)e2e::wait_until(
      [&] { return e2e::contains(relay.out(), "listening") || !relay.running(); });
}

// ---- the launcher

bool World::run_can_be_resumed() const {
  std::error_code ec;
  return e2e::exists(cluster_->run_dir(kRun) + "/spec.resolved.yaml") &&
         std::filesystem::file_size(cluster_->run_dir(kRun) + "/events.jsonl", ec) > 0 && !ec;
}

void World::start_launcher() {
  std::vector<std::string> words{cluster_->path(std::string(kRun) + ".yaml"), "--hosts", hosts(),
                                 "--token-file", cluster_->path("token")};
  if (run_can_be_resumed()) words = {"resume", cluster_->run_dir(kRun)};
  e2e::StartOptions options;
  options.prefix = network_->on_hub();
  if (shape_.fake_clock) {  // the workers inherit it
    options.env = {
        {"LD_PRELOAD", fake_clock_library()}, {"FAKETIME_TIMESTAMP_FILE", cluster_->path("clock")},
        {"FAKETIME_CACHE_DURATION", "1"},     {"FAKETIME_DONT_FAKE_MONOTONIC", "1"},
        {"DONT_FAKE_MONOTONIC", "1"},         {"NO_FAKE_STAT", "1"}};
  }
  if (shape_.pace != 0) {  // becomes train-run
    words.insert(words.begin(), {"python3", TRAIN_CHAOS_DRIVER, cluster_->path("acknowledged"),
                                 fmt::to_string(shape_.pace), e2e::built("train-run")});
    if (words[5] != "resume") words.insert(words.begin() + 5, "run");
    launcher_ = &cluster_->start(words, options);
  } else {
    launcher_ = &cluster_->train_run(words, options);
  }
  resume_at_.reset();
}

std::vector<pid_t> World::drivers() const {
  std::vector<pid_t> pids;
  for (const e2e::Seen& seen : cluster_->processes(TRAIN_CHAOS_DRIVER))
    if (launcher_ != nullptr && seen.pid != launcher_->pid()) pids.push_back(seen.pid);
  return pids;
}

std::optional<pid_t> World::launcher_pid() {
  if (launcher_ == nullptr || !launcher_->running()) return std::nullopt;
  return launcher_->pid();
}

void World::kill_launcher(double back_after) {
  launcher_->signal(SIGKILL);
  (void)launcher_->wait();
  launcher_ = nullptr;
  const std::string ended = cluster_->run_dir(kRun) + "/exit.json";
  if (e2e::exists(ended) && e2e::text_of(cluster_->exit_json(kRun), "code") == "0")
    exit_code_ = 0;  // the run had already succeeded
  else
    resume_at_ = after(back_after);
}

void World::tick_launcher(std::vector<std::string>& problems) {
  if (exit_code_) return;
  if (resume_at_) {
    if (Clock::now() >= *resume_at_) start_launcher();
    return;
  }
  if (launcher_->running()) return;
  exit_code_ = launcher_->wait();
  if (*exit_code_ != 0)
    problems.push_back(fmt::format("`{}` ended with exit code {}: {}", launcher_->command(),
                                   *exit_code_, launcher_->err()));
}

// ---- nodes

std::optional<pid_t> World::daemon_pid(int node) {
  if (states_[node].start_at || !nodes_->daemon(node).running()) return std::nullopt;
  return nodes_->daemon(node).pid();
}

std::vector<pid_t> World::supervisors_on(int node) const {
  std::vector<pid_t> pids;
  for (const e2e::Seen& seen : cluster_->processes(" supervise ")) {
    if (e2e::contains(seen.command, spool_dir(node) + "/")) pids.push_back(seen.pid);
  }
  return pids;
}

std::vector<pid_t> World::workers_on(int node) const {
  const std::vector<pid_t> parents = supervisors_on(node);
  std::vector<pid_t> pids;
  for (const e2e::Seen& seen : all_workers()) {
    if (std::find(parents.begin(), parents.end(), seen.parent) != parents.end())
      pids.push_back(seen.pid);
  }
  return pids;
}

std::vector<pid_t> World::workers() const {
  std::vector<pid_t> pids;
  for (const e2e::Seen& seen : all_workers()) pids.push_back(seen.pid);
  return pids;
}

// Return standbys too: their environment does not show whether they already have a rank.
std::vector<e2e::Seen> World::all_workers() const {
  std::vector<e2e::Seen> all = cluster_->workers();
  for (e2e::Seen& seen : cluster_->standbys()) all.push_back(std::move(seen));
  return all;
}

bool World::is_ours(pid_t pid) const {
  const std::vector<e2e::Seen> all = cluster_->processes();
  return std::any_of(all.begin(), all.end(),
                     [&](const e2e::Seen& seen) { return seen.pid == pid; });
}

void World::kill_daemon(int node, double back_after) {
  nodes_->daemon(node).signal(SIGKILL);
  (void)nodes_->daemon(node).wait();
  states_[node] = {.start_at = after(back_after), .drained_back_after = {}};
}

// Kill traind first, because it starts other processes.
void World::kill_node(int node, double back_after) {
  network_->cut(node);
  kill_daemon(node, back_after);
  const std::vector<pid_t> workers = workers_on(node);
  for (const pid_t pid : supervisors_on(node)) e2e::send_signal(pid, SIGKILL);
  for (const pid_t pid : workers) e2e::send_signal(pid, SIGKILL);
}

void World::drain_daemon(int node, double back_after) {
  (void)cluster_->traind({"drain", "--runtime-dir", runtime_dir(node), "--grace", kDrainGrace});
  states_[node].drained_back_after = back_after;
}

void World::tick_daemon(int node, std::vector<std::string>& problems) {
  Node& state = states_[node];
  if (state.start_at) {
    if (Clock::now() < *state.start_at) return;
    state.start_at.reset();
    (void)nodes_->start(node);
    return;
  }
  e2e::Process& daemon = nodes_->daemon(node);
  if (daemon.running()) return;
  if (!state.drained_back_after || daemon.wait() != 0)
    problems.push_back(fmt::format("traind of n{} ended by itself with exit code {}: {}", node,
                                   daemon.wait().value_or(-1), daemon.err()));
  state.start_at = after(state.drained_back_after.value_or(0));
  state.drained_back_after.reset();
}

std::vector<std::string> World::tick() {
  std::vector<std::string> problems;
  for (int node = 0; node < Shape::kNodes; ++node) tick_daemon(node, problems);
  tick_launcher(problems);
  return problems;
}

// ---- links and clocks

void World::in_namespace(int node, const std::string& nft) {
  e2e::StartOptions options;
  options.prefix = network_->on_node(node);
  (void)cluster_->start({"nft", nft}, options).wait();
}

void World::filter(int node, const std::string& name, const std::string& hook,
                   const std::string& rule) {
  in_namespace(node, fmt::format("add table inet {0}; add chain inet {0} c {{ type filter hook {1} "
                                 "priority 0; }}; add rule inet {0} c {2}",
                                 name, hook, rule));
}

void World::unfilter(int node, const std::string& name) {
  in_namespace(node, fmt::format("delete table inet {}", name));
}

void World::write_relay_control() const {
  std::string text;
  for (int node = 0; node < Shape::kNodes; ++node)
    text += fmt::format("{} {}\n", delays_[node], resets_[node]);
  put_file(cluster_->path("relay"), text);
}

void World::delay_link(int node, int milliseconds) {
  delays_[node] = milliseconds;
  write_relay_control();
}

void World::reset_link(int node) {
  ++resets_[node];
  write_relay_control();
}

void World::write_clock() const {
  put_file(cluster_->path("clock"), fmt::format("{:+}\n", clock_offset_));
}

void World::step_clock(int seconds) {
  clock_offset_ += seconds;
  write_clock();
}

// ---- the end

std::vector<e2e::Seen> World::take_down() {
  for (int node = 0; node < Shape::kNodes; ++node) {
    if (daemon_pid(node)) nodes_->daemon(node).signal(SIGINT);
  }
  for (const e2e::Seen& seen : cluster_->processes(program("chaos_relay")))
    e2e::send_signal(seen.pid, SIGTERM);
  std::vector<e2e::Seen> left;
  (void)e2e::wait_until(
      [&] {
        for (int node = 0; node < Shape::kNodes; ++node) (void)nodes_->daemon(node).running();
        left = cluster_->processes();
        return left.empty();
      },
      kTakeDownLimit);
  return left;
}

std::string World::keep_folder() {
  std::string kept = "/tmp/chaos-" + std::filesystem::path(cluster_->dir()).filename().string();
  std::rename(cluster_->dir().c_str(), kept.c_str());
  return kept;
}

}  // namespace train::chaos
