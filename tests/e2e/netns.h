// Several machines on this one: network namespaces, each with one interface on a bridge that stands
// in a namespace of its own. Nothing of it touches the machine's own network. A test makes it,
// starts processes inside, cuts links, and it is all gone with the destructor; what a killed test
// left behind, the next one removes.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace train::e2e {

class Network {
 public:
  /// Why this system cannot have one: not root, a tool or the kernel's permission is missing. "":
  /// it can.
  static std::string missing();

  /// Nodes 0 to nodes-1, and the hub between them, where launchers run. Fails the test when it
  /// cannot be made.
  explicit Network(int nodes);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Words before a command that run it on a node, or on the hub (StartOptions::prefix).
  std::vector<std::string> on_node(int node) const;
  std::vector<std::string> on_hub() const;
  std::string address(int node) const;
  static constexpr const char* kInterface = "data0";  // of each node; the hub's is another

  /// Take a node's cable out; nothing passes, and neither side is told.
  void cut(int node) const;
  void mend(int node) const;
  /// As cut(), and a router tells the hub at once that the node cannot be reached.
  void cut_off(int node) const;
  /// Packets from the node arrive, packets to it do not.
  void deafen(int node) const;
  void undeafen(int node) const;
  /// Packets to the node arrive, packets from it do not.
  void silence(int node) const;
  void unsilence(int node) const;
  /// Of every hundred packets to the node, and of those from it, so many are lost.
  void lose(int node, int percent) const;
  /// So many Mbit a second at most come from the node, until it is called again with another
  /// number.
  void slow(int node, int mbit) const;
  /// How many packets silence() and lose() have dropped so far.
  std::uint64_t dropped(int node) const;
  /// Whether somebody on the hub waits for an answer to connecting to the node.
  bool dialled(int node) const;
  /// Whether the process runs on the node.
  bool holds(int node, pid_t pid) const;

 private:
  std::string name(const std::string& who) const;
  std::string name(int node) const;

  std::string prefix_;
  int nodes_ = 0;
};

}  // namespace train::e2e
