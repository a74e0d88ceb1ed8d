// A test's own world of real processes: a temporary folder, train-run and traind started in it with
// captured output, waits with deadlines, and a look at what is left over. Everything that is
// started carries a mark in its environment, which grandchildren inherit; the destructor kills
// whatever still carries it, and shows all logs when the test has failed.
#pragma once

#include <sys/types.h>

#include <boost/json/object.hpp>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace train::e2e {

using Seconds = std::chrono::duration<double>;
inline constexpr Seconds kWaitTimeout{
    120};  // far more than any step takes on a slow disk; only a broken one waits so long

/// How a process is started, beside its argv.
struct StartOptions {
  std::map<std::string, std::string>
      env;                          // on top of the cluster's; an empty value removes the variable
  std::vector<std::string> prefix;  // words before argv: {"ip", "netns", "exec", "node-a"}
  std::string cwd;                  // default: the cluster's folder
};

/// A process that this test started. Reaped by wait(); the cluster's destructor kills it when it
/// still runs.
class Process {
 public:
  pid_t pid() const { return pid_; }
  const std::string& command() const { return command_; }
  /// Everything it has written so far.
  std::string out() const;
  std::string err() const;
  void signal(int number) const;
  bool running();
  /// Its exit code, 128+signal for a signal; nothing when the deadline passed first.
  std::optional<int> wait(Seconds limit = kWaitTimeout);

 private:
  friend class Cluster;
  pid_t pid_ = -1;
  std::string command_, out_path_, err_path_;
  std::optional<int> code_;
};

/// A process of this cluster as /proc shows it.
struct Seen {
  pid_t pid = 0, parent = 0;
  std::string command;  // argv, joined by blanks
};

class Cluster {
 public:
  Cluster();
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const std::string& dir() const { return dir_; }  // short: sockets fit into it
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string storage() const { return path("runs"); }
  std::string run_dir(const std::string& run) const { return storage() + "/" + run; }
  std::string runtime_dir() const { return path("rt"); }  // XDG_RUNTIME_DIR of all
  /// Write a file into the folder; its path.
  std::string write(const std::string& name, const std::string& text) const;
  /// A job with `name: NAME` and storage_path in this cluster, then `yaml`; its path. `run_config`
  /// holds further lines of that section, indented by two blanks.
  std::string job(const std::string& name, const std::string& yaml,
                  const std::string& run_config = "") const;

  Process& start(const std::vector<std::string>& argv, const StartOptions& options = {});
  Process& train_run(const std::vector<std::string>& arguments, const StartOptions& options = {});
  Process& traind(const std::vector<std::string>& arguments, const StartOptions& options = {});
  /// train_run and wait: its exit code, −1 when it did not end in time.
  int run(const std::vector<std::string>& arguments, const StartOptions& options = {});

  /// Processes that carry the mark, zombies left out. `containing`: only those with it in their
  /// command.
  std::vector<Seen> processes(const std::string& containing = "") const;
  /// The worker processes: whose environment has RANK (of this rank, if one is given).
  std::vector<Seen> workers(int rank = -1) const;
  /// Those that were started without a rank (standby_workers), whether or not they have one by now.
  std::vector<Seen> standbys() const;
  std::optional<pid_t> worker(int rank) const;
  std::set<pid_t> worker_pids() const;
  /// The folders of private daemons: what is in runtime_dir(), and their spools in $TMPDIR.
  std::vector<std::string> runtime_folders() const;

  boost::json::object exit_json(const std::string& run) const;
  boost::json::object run_json(const std::string& run) const;
  /// The lines of a JSONL file, parsed; a line that does not parse fails the test.
  std::vector<boost::json::object> json_lines(const std::string& text) const;
  /// What a run that may still go on has written so far: whole lines.
  std::vector<boost::json::object> metrics(const std::string& run) const;
  std::vector<boost::json::object> journal(const std::string& run) const;
  std::string read(const std::string& path) const;                     // "" when it is not there
  std::vector<std::string> checkpoints(const std::string& run) const;  // committed ones, sorted

 private:
  void show_logs() const;
  std::vector<Seen> started_with(const std::string& variable) const;  // NAME or NAME=VALUE

  std::string dir_, mark_;
  std::list<Process> processes_;
};

/// The log holds `count` reports of each of `ranks` ranks, each once, and all by attempt 0.
void expect_one_attempt(const Cluster& cluster, const std::string& run, int ranks, int count);
/// A run "job" (of job.yaml) whose one worker has said "before" and waits for the file "go"; `then`
/// is what plain_worker does after it: ", print, after".
Process& start_waiting_worker(Cluster& cluster, const std::string& then = "");
/// No process is left, and no folder of a private traind.
bool nothing_left(const Cluster& cluster);
/// kill(2) on one process of a test: 0 and −1, which are many others, fail the test instead.
void send_signal(pid_t pid, int number);
/// Look until `condition` holds; false when it did not in time.
bool wait_until(const std::function<bool()>& condition, Seconds limit = kWaitTimeout);
/// The path of one of tests/e2e/programs, and of the built programs.
std::string program(const std::string& name);
std::string built(const std::string& name);
/// The Python of the tools' environment (tensorboard, pyarrow), "" when it is not installed.
std::string tools_python();
std::string read_file(const std::string& path);
bool exists(const std::string& path);
/// A string as it is, anything else as JSON; "(missing)" where there is none.
std::string text_of(const boost::json::object& object, const std::string& key);
bool contains(const std::string& text, const std::string& part);

}  // namespace train::e2e
