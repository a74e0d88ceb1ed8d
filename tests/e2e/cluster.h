// A test's own cluster of real processes. It starts train-run and traind in a temporary folder,
// captures their output, waits with deadlines, and looks for leftovers. Every process has a mark in
// its environment, which grandchildren inherit. The destructor kills whatever still has the mark,
// and shows all logs if the test has failed.
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
    120};  // far more than any step takes on a slow disk; only a bug waits so long

/// Options for starting a process, beside its argv.
struct StartOptions {
  std::map<std::string, std::string>
      env;                          // on top of the cluster's; an empty value removes the variable
  std::vector<std::string> prefix;  // words before argv: {"ip", "netns", "exec", "node-a"}
  std::string cwd;                  // default: the cluster's folder
};

/// A process that this test started. wait() reaps it. If it still runs, the cluster's destructor
/// kills it.
class Process {
 public:
  pid_t pid() const { return pid_; }
  const std::string& command() const { return command_; }
  /// Return everything that it has written so far.
  std::string out() const;
  std::string err() const;
  void signal(int number) const;
  bool running();
  /// Return its exit code, 128+signal for a signal, or nothing if the deadline passed first.
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
  std::string command;  // argv, joined by spaces
};

class Cluster {
 public:
  Cluster();
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  const std::string& dir() const { return dir_; }  // short enough for socket paths
  std::string path(const std::string& name) const { return dir_ + "/" + name; }
  std::string storage() const { return path("runs"); }
  std::string run_dir(const std::string& run) const { return storage() + "/" + run; }
  std::string runtime_dir() const { return path("rt"); }  // XDG_RUNTIME_DIR of all processes
  /// Write a file into the folder. Return its path.
  std::string write(const std::string& name, const std::string& text) const;
  /// Write a job with `name: NAME`, storage_path in this cluster, and `yaml`. Return its path.
  /// `run_config` holds further lines of that section, indented by two spaces.
  std::string job(const std::string& name, const std::string& yaml,
                  const std::string& run_config = "") const;

  Process& start(const std::vector<std::string>& argv, const StartOptions& options = {});
  Process& train_run(const std::vector<std::string>& arguments, const StartOptions& options = {});
  Process& traind(const std::vector<std::string>& arguments, const StartOptions& options = {});
  /// Run train_run and wait. Return its exit code, or −1 if it did not end in time.
  int run(const std::vector<std::string>& arguments, const StartOptions& options = {});

  /// Return processes with the mark, except zombies; with `containing`, only those whose command
  /// contains it.
  std::vector<Seen> processes(const std::string& containing = "") const;
  /// Return the worker processes, whose environment has RANK; with `rank`, only that rank.
  std::vector<Seen> workers(int rank = -1) const;
  /// Return processes started without a rank (standby_workers), even if they have one now.
  std::vector<Seen> standbys() const;
  std::optional<pid_t> worker(int rank) const;
  std::set<pid_t> worker_pids() const;
  /// Return private daemons' folders: entries of runtime_dir(), and their spools in $TMPDIR.
  std::vector<std::string> runtime_folders() const;

  boost::json::object exit_json(const std::string& run) const;
  boost::json::object run_json(const std::string& run) const;
  /// Parse the lines of a JSONL file. A line that does not parse fails the test.
  std::vector<boost::json::object> json_lines(const std::string& text) const;
  /// Return the complete lines that a run, perhaps still running, has written so far.
  std::vector<boost::json::object> metrics(const std::string& run) const;
  std::vector<boost::json::object> journal(const std::string& run) const;
  std::string read(const std::string& path) const;                     // "" if there is none
  std::vector<std::string> checkpoints(const std::string& run) const;  // committed ones, sorted

 private:
  void show_logs() const;
  std::vector<Seen> started_with(const std::string& variable) const;  // NAME or NAME=VALUE

  std::string dir_, mark_;
  std::list<Process> processes_;
};

/// Check that the log holds `count` reports of each of `ranks` ranks, each once, all by attempt 0.
void expect_one_attempt(const Cluster& cluster, const std::string& run, int ranks, int count);
/// Start a run "job" (of job.yaml) whose only worker has said "before" and waits for the file "go".
/// `then`: what plain_worker does next, such as ", print, after".
Process& start_waiting_worker(Cluster& cluster, const std::string& then = "");
/// Return whether no process and no folder of a private traind is left.
bool nothing_left(const Cluster& cluster);
/// Call kill(2) on one process. Pids 0 and −1 would hit many others, so they fail the test instead.
void send_signal(pid_t pid, int number);
/// Poll until `condition` holds. Return false if it does not hold in time.
bool wait_until(const std::function<bool()>& condition, Seconds limit = kWaitTimeout);
/// Return the path of one of tests/e2e/programs, or of a built program.
std::string program(const std::string& name);
std::string built(const std::string& name);
/// Return the tools' Python (tensorboard, pyarrow), or "" if it is not installed.
std::string tools_python();
/// Return the Python of the programs that use ours (Optuna, pandas, cloudpickle), or "" if it is
/// not installed.
std::string clients_python();
/// Return the Python of TensorFlow and JAX, or "" if it is not installed: `make clients`
/// installs it.
std::string frameworks_python();
/// Return the Python of torchft, or "" if it is not installed: `make clients` installs it.
std::string torchft_python();
/// Return the Python of Horovod and PyTorch, or "" if it is not installed: `make clients` builds
/// it.
std::string horovod_python();
/// Return the Python of MPICH and NumPy, or "" if it is not installed.
std::string mpi_python();
/// The same of Open MPI 5, and of Debian's Open MPI 4.
std::string openmpi_python();
std::string openmpi_4_python();
/// Return the Python of Ray, or "" if it is not installed: only benchmarks install it.
std::string ray_python();
/// Return the folder of py-spy, which has it in bin/, or "" if it is not installed.
std::string py_spy_folder();
/// Return the folder of the webdataset package for the tools' Python, or "" if it is not installed.
std::string webdataset_folder();
std::string memray_folder();
std::string read_file(const std::string& path);
bool exists(const std::string& path);
/// Return a string as it is, anything else as JSON, and "(missing)" if there is none.
std::string text_of(const boost::json::object& object, const std::string& key);
bool contains(const std::string& text, const std::string& part);

}  // namespace train::e2e
