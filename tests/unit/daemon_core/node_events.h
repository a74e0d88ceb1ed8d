// A node's agent, and the events that reach it, for its tests.
#pragma once

#include <gtest/gtest.h>

#include "daemon/core/node_agent.h"

namespace train {

inline constexpr LinkId kLink = 1, kOther = 2;
inline constexpr Attempt kFirst{0}, kSecond{1};

inline Resources cpus(double count, double gpu = 0) {
  Resources amounts;
  amounts.cpu = count;
  amounts.gpu = gpu;
  return amounts;
}
inline LauncherAttached attach(LinkId link, std::uint64_t generation,
                               const std::string& run = "r1") {
  AttachRun message{run, run, generation};
  message.orphan_timeout_ms = 5000;
  return {link, message};
}
inline AttemptAsked ask(LinkId link, Attempt attempt, int workers, double gpu = 0) {
  AttemptAsked event{link, attempt, {}};
  event.message.local_world_size = workers;
  event.message.per_worker = cpus(1, gpu);
  return event;
}
inline SupervisorUp up(Attempt attempt, double claimed = 2, const std::string& run = "r1") {
  return {{run, attempt}, SupervisorHello{run, attempt.value, 1, cpus(claimed), {}, ""}};
}

struct Node {
  NodeAgent agent{"node-a", "host-a", {"10.0.0.1"}, cpus(4, 2)};
  std::vector<NodeAction> handle(const NodeEvent& event) { return agent.handle(event); }
  /// Return the action of this kind, or fail the test if there is none.
  template <class A>
  A one(const NodeEvent& event) {
    for (const NodeAction& action : agent.handle(event)) {
      if (const auto* found = std::get_if<A>(&action)) return *found;
    }
    ADD_FAILURE() << "no such action";
    return {};
  }
  /// End its supervisor. Return the event that all of its leftovers are gone.
  AttemptLeftoversReaped down(const AttemptKey& key, const std::string& reason = "exit code 0") {
    EXPECT_EQ(one<ReapAttemptLeftovers>(SupervisorDown{key, reason}).key, key);
    return {key};
  }
};

inline AttemptAsked ask_standby(Attempt attempt) {
  AttemptAsked event = ask(kLink, attempt, 2, 1);
  event.message.standby = true;
  return event;
}

}  // namespace train
