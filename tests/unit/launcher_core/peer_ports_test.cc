#include "launcher/core/peer_ports.h"

#include <gtest/gtest.h>

namespace train {
namespace {

const NodeId kA{7}, kB{3};

Placement two_and_one() {
  Placement placement{.world_size = 3};
  placement.nodes = {{kA, NodeRank{0}, Rank{0}, 2}, {kB, NodeRank{1}, Rank{2}, 1}};
  return placement;
}

std::string host(NodeId node) { return node == kA ? "10.0.0.1" : "fd00::2"; }

TEST(PeerPorts, AreListedByRank) {
  const Placement placement = two_and_one();
  PeerPorts ports;

  EXPECT_TRUE(ports.prepared(placement.nodes[1], {5}, 1));  // in any order
  EXPECT_TRUE(ports.prepared(placement.nodes[0], {1, 65'535}, 1));

  EXPECT_EQ(ports.peers(placement, host),
            (std::vector<std::string>{"10.0.0.1:1", "10.0.0.1:65535", "[fd00::2]:5"}));
}

TEST(PeerPorts, SeveralOfARankFollowEachOther) {
  const Placement placement = two_and_one();
  PeerPorts ports;

  EXPECT_TRUE(ports.prepared(placement.nodes[0], {1, 2, 3, 4}, 2));
  EXPECT_TRUE(ports.prepared(placement.nodes[1], {5, 6}, 2));

  EXPECT_EQ(ports.peers(placement, [](NodeId) { return "h"; }),
            (std::vector<std::string>{"h:1", "h:2", "h:3", "h:4", "h:5", "h:6"}));
}

TEST(PeerPorts, MayBeSoManyThatOneVariableHasThemAll) {
  JobSpec spec;
  spec.backend = Backend::Custom;
  spec.backend_config.ports = 2;
  EXPECT_TRUE(check_peers(spec, 2048));
  EXPECT_EQ(check_peers(spec, 2049).error().message,
            "backend custom tells each worker of all others: at most 2048 workers with 2 ports "
            "each");
  spec.backend = Backend::Mpi;
  EXPECT_TRUE(check_peers(spec, 65'536));
}

TEST(PeerPorts, NoneAreAskedForByMostBackends) {
  JobSpec spec;
  for (const auto& [backend, ports] : std::map<Backend, int>{{Backend::Torch, 0},
                                                             {Backend::None, 0},
                                                             {Backend::Mpi, 0},
                                                             {Backend::Tensorflow, 1},
                                                             {Backend::Jax, 1},
                                                             {Backend::Horovod, 1},
                                                             {Backend::Custom, 3}}) {
    spec.backend = backend;
    spec.backend_config.ports = 3;
    EXPECT_EQ(ports_per_worker(spec), ports) << to_text(backend);
  }
  PeerPorts ports;
  EXPECT_TRUE(ports.prepared(two_and_one().nodes[0], {}, 0));
  EXPECT_TRUE(ports.peers(two_and_one(), host).empty());
}

TEST(PeerPorts, RefusesWhatWasNotAskedFor) {
  const PlacedNode placed = two_and_one().nodes[0];
  PeerPorts ports;

  EXPECT_FALSE(ports.prepared(placed, {}, 1));
  EXPECT_FALSE(ports.prepared(placed, {1}, 1));
  EXPECT_FALSE(ports.prepared(placed, {1, 2, 3}, 1));
  EXPECT_FALSE(ports.prepared(placed, {1, 0}, 1));
  EXPECT_FALSE(ports.prepared(placed, {1, 65'536}, 1));
  EXPECT_FALSE(ports.prepared(placed, {1}, 0));
}

}  // namespace
}  // namespace train
