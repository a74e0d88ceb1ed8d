// The train-run of a driver: starts it as a child with a socket (docs/driver.md), reads its events,
// sends it commands, and waits for its end. send() may be called by any thread; the rest belongs to
// one.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace train::trainer {

class DriverProcess {
 public:
  struct Options {
    std::vector<std::string> words;  // the program first; "--driver-fd N" is appended
    bool show_output = true;
  };
  /// Start the program. Throws Failure("not_found" and others), which names it.
  explicit DriverProcess(const Options& options);
  /// Leave, and wait for the program's end.
  ~DriverProcess();
  DriverProcess(const DriverProcess&) = delete;
  DriverProcess& operator=(const DriverProcess&) = delete;

  /// Return the next line, without its newline; nothing if none comes in time, or if there are no
  /// more (over()).
  std::optional<std::string> next_line(std::chrono::milliseconds limit);
  bool over() const { return over_ && pending_.empty(); }
  /// Send a line, if the program still reads. Blocks until train-run has read
  /// most of it.
  void send(const std::string& line);
  /// Close the socket, so that the run stops in good order, and workers that stay end.
  void leave();
  /// Wait until the program has ended. Return its exit code, or 128 + the signal that killed it.
  int wait();
  /// Return the end of what it wrote to stderr. Call it after wait().
  const std::string& errors() const { return errors_; }

 private:
  void read_errors();

  pid_t pid_ = -1;
  std::mutex mutex_;  // protects socket_'s lifetime against send()
  int socket_ = -1;
  int stderr_ = -1;
  const bool show_output_;
  std::string pending_;
  bool over_ = false;
  std::optional<int> code_;
  std::atomic<bool> ended_ = false;
  std::string errors_;  // of errors_thread_, until that has ended
  std::thread errors_thread_;
};

}  // namespace train::trainer
