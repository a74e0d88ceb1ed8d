// The lighthouse: a server of torchft's, by which replica groups find each other. It is a child
// process at a port that we hold for it, so that it comes back at the same address when it has
// died. It dies with this process. Only end() blocks.
#pragma once

#include <poll.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/children/capped_log.h"
#include "launcher/cluster/run/child_program.h"
#include "lib/base/result.h"
#include "lib/net/held_port.h"

namespace train {

class Lighthouse {
 public:
  struct Options {
    std::vector<std::string> command = {};  // --min_replicas and --bind are added
    int min_groups = 1;
    std::string folder = {};  // where it starts
    std::map<std::string, std::string> environment = {};
    std::string host = "127.0.0.1";  // a numeric address of this machine
    std::uint16_t port = 0;          // the one that it had, if it is free; 0: any
    std::string log = {};            // the file for what it writes
  };
  explicit Lighthouse(Options options);
  ~Lighthouse() { end(); }
  Lighthouse(const Lighthouse&) = delete;
  Lighthouse& operator=(const Lighthouse&) = delete;

  /// Hold the port: then url() is known.
  Result<Unit> open();
  std::string url() const;  // http://127.0.0.1:29510

  Result<Unit> start();
  /// Return whether it has begun to accept connections, once for each start.
  bool came_up();
  /// Take its output. Return how it has ended, once it has.
  std::optional<std::string> ended();
  void kill() const;
  void add_to(std::vector<pollfd>& polled) const;
  /// Return whether it has been started, and does not accept connections yet.
  bool is_coming_up() const { return program_ && !up_; }

  /// Let it end: it has some seconds for that.
  void end();

 private:
  std::string address() const;

  const Options options_;
  std::optional<HeldPort> port_;
  std::optional<ChildProgram> program_;
  CappedLog log_;
  bool up_ = false;
};

}  // namespace train
