// Several machines on this one: network namespaces, each with an interface on a bridge in another
// namespace. They do not touch the machine's own network. A test creates them, starts processes
// inside and cuts links; the destructor removes everything. The next test removes what a killed one
// left behind.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace train::e2e {

class Network {
 public:
  /// Return why this system cannot have namespaces (not root, a tool or permission is missing), or
  /// "" if it can.
  static std::string missing();

  /// Create nodes 0 to nodes-1 and the hub between them, where launchers run. On failure, fail the
  /// test.
  explicit Network(int nodes);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Return the words before a command that run it on a node or the hub (StartOptions::prefix).
  std::vector<std::string> on_node(int node) const;
  std::vector<std::string> on_hub() const;
  std::string address(int node) const;
  static constexpr const char* kInterface = "data0";  // on each node; the hub's is another

  /// Unplug a node's cable: nothing passes, and neither side is told.
  void cut(int node) const;
  void mend(int node) const;
  /// Do as cut(), but let a router tell the hub immediately that it cannot reach the node.
  void cut_off(int node) const;
  /// Drop packets to the node; packets from it arrive.
  void deafen(int node) const;
  void undeafen(int node) const;
  /// Drop packets from the node; packets to it arrive.
  void silence(int node) const;
  void unsilence(int node) const;
  /// Lose this percentage of packets in each direction.
  void lose(int node, int percent) const;
  /// Limit what comes from the node to so many Mbit per second. Another call changes the limit.
  void slow(int node, int mbit) const;
  /// Return how many packets silence() and lose() have dropped so far.
  std::uint64_t dropped(int node) const;
  /// Return whether a process on the hub waits for its connect() to the node.
  bool dialled(int node) const;
  /// Return whether the process runs on the node.
  bool holds(int node, pid_t pid) const;

 private:
  std::string name(const std::string& who) const;
  std::string name(int node) const;

  std::string prefix_;
  int nodes_ = 0;
};

}  // namespace train::e2e
