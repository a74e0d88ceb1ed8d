// A file system with faults below one folder: test programs load this library by LD_PRELOAD.
// $SLOW_STORAGE_DIR is the folder (an absolute path). $SLOW_STORAGE_RULES is a file that the test
// may replace at any time; a missing file has no rules. A line of it:
//
//   traind fsync delay 2 .rank-     PROGRAM CALL FAULT VALUE PART-OF-THE-PATH ('*': any)
//
// PROGRAM is the name of the executable; CALL is fsync (also fdatasync), mkdir, write, rename or
// unlink (also rmdir). The first line that matches decides:
//
//   delay S     after S seconds, or once the rule is gone
//   hang 0      until the rule is gone
//   eio N, enospc N, edquot N    fail the first N calls of a process with that error; 0: all calls
//
// The library writes a line to $SLOW_STORAGE_RULES.log before each matching call: PROGRAM CALL
// FAULT INODE PATH. FAULT is "none" if the fault is used up.
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <string>

namespace {

struct Rule {
  std::string line, program, call, fault, path;
  double value = 0;
};

std::string variable(const char* name) {
  const char* value = ::getenv(name);
  return value == nullptr ? "" : value;
}

std::string link_target(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
  return size < 0 ? "" : std::string(target, static_cast<std::size_t>(size));
}

const std::string& program() {
  static const std::string name = [] {
    const std::string path = link_target("/proc/self/exe");
    return path.substr(path.rfind('/') + 1);
  }();
  return name;
}

// Use system calls only: code here must not call the functions that we wrap.
std::string text_of(const std::string& path) {
  const long fd = ::syscall(SYS_openat, AT_FDCWD, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(static_cast<int>(fd), buffer, sizeof buffer);
    if (got <= 0) break;
    text.append(buffer, static_cast<std::size_t>(got));
  }
  ::close(static_cast<int>(fd));
  return text;
}

std::optional<Rule> rule_for(const std::string& call, const std::string& path) {
  std::istringstream lines(text_of(variable("SLOW_STORAGE_RULES")));
  for (std::string line; std::getline(lines, line);) {
    Rule rule{line, "", "", "", "", 0};
    std::istringstream(line) >> rule.program >> rule.call >> rule.fault >> rule.value >> rule.path;
    const bool here = rule.path == "*" || path.find(rule.path) != std::string::npos;
    if (rule.program == program() && rule.call == call && here) return rule;
  }
  return std::nullopt;
}

double now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

void note(const Rule& rule, const std::string& fault, const std::string& path) {
  struct stat status {};
  (void)::stat(path.c_str(), &status);
  const std::string line = program() + " " + rule.call + " " + fault + " " +
                           std::to_string(status.st_ino) + " " + path + "\n";
  const std::string log = variable("SLOW_STORAGE_RULES") + ".log";
  const long fd =
      ::syscall(SYS_openat, AT_FDCWD, log.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  (void)::syscall(SYS_write, fd, line.data(), line.size());
  ::close(static_cast<int>(fd));
}

bool used_up(const Rule& rule) {
  static std::mutex mutex;
  static std::map<std::string, int> uses;
  const std::lock_guard lock(mutex);
  return rule.value > 0 && ++uses[rule.line] > static_cast<int>(rule.value);
}

void wait_while(const Rule& rule, const std::string& path) {
  const double until = rule.fault == "delay" ? now() + rule.value : 1e18;
  for (;;) {
    const auto still = rule_for(rule.call, path);
    if (!still || still->line != rule.line || now() >= until) return;
    const timespec pause{0, 5'000'000};
    ::nanosleep(&pause, nullptr);
  }
}

// Return 0 to make the call, or else the errno with which it fails.
int fault_of(const char* call, const std::string& path) {
  const std::string below = variable("SLOW_STORAGE_DIR");
  if (below.empty() || !path.starts_with(below + "/")) return 0;
  const auto rule = rule_for(call, path);
  if (!rule) return 0;
  if (rule->fault == "delay" || rule->fault == "hang") {
    note(*rule, rule->fault, path);
    wait_while(*rule, path);
    return 0;
  }
  const bool over = used_up(*rule);
  note(*rule, over ? "none" : rule->fault, path);
  if (over) return 0;
  return rule->fault == "enospc" ? ENOSPC : rule->fault == "edquot" ? EDQUOT : EIO;
}

int fault_of(const char* call, int fd) {
  return fault_of(call, link_target("/proc/self/fd/" + std::to_string(fd)));
}

/// Return the function that this library wraps.
template <class Function>
Function* next(Function*, const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

// Call ::NAME(ARGUMENTS) unless the rules say otherwise.
#define CALL(rule_name, what, name, ...)                           \
  static auto* const real = next(&::name, #name);                  \
  if (const int failed = fault_of(rule_name, what); failed != 0) { \
    errno = failed;                                                \
    return -1;                                                     \
  }                                                                \
  return real(__VA_ARGS__)

}  // namespace

extern "C" {

int fsync(int fd) { CALL("fsync", fd, fsync, fd); }
int fdatasync(int fd) { CALL("fsync", fd, fdatasync, fd); }
ssize_t write(int fd, const void* data, size_t size) { CALL("write", fd, write, fd, data, size); }
ssize_t writev(int fd, const iovec* data, int count) { CALL("write", fd, writev, fd, data, count); }
int rename(const char* from, const char* to) noexcept {
  CALL("rename", std::string(to), rename, from, to);
}
int renameat2(int from_fd, const char* from, int to_fd, const char* to,
              unsigned int flags) noexcept {
  CALL("rename", std::string(to), renameat2, from_fd, from, to_fd, to, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
  CALL("mkdir", std::string(path), mkdir, path, mode);
}
int unlink(const char* path) noexcept { CALL("unlink", std::string(path), unlink, path); }
int rmdir(const char* path) noexcept { CALL("unlink", std::string(path), rmdir, path); }

}  // extern "C"
