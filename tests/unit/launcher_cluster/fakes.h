// What the shells of the launcher use, played by a test.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cluster/links/event_sink.h"
#include "launcher/cluster/links/node_links.h"
#include "launcher/report/user_messages.h"

namespace train {

/// Has the nodes n0, n1, …, of which some answer. `sent` gets what is sent to them.
class FakeLinks : public NodeLinks {
 public:
  using Sent = std::function<void(NodeId, const Frame&)>;
  FakeLinks(std::vector<NodeId> up, Sent sent) : answering(std::move(up)), sent_(std::move(sent)) {}

  void send(NodeId node, const Frame& frame) override { sent_(node, frame); }
  std::string name(NodeId node) const override { return "n" + std::to_string(node.value); }
  std::optional<NodeId> find(const std::string& wanted) const override {
    for (NodeId node : answering)
      if (name(node) == wanted) return node;
    return std::nullopt;
  }
  std::vector<NodeId> up() const override { return answering; }

  std::vector<NodeId> answering;

 private:
  Sent sent_;
};

/// Keeps what the user would read.
struct RecordedMessages : UserMessages {
  void phase(std::string_view text) override { phases.emplace_back(text); }
  void warn(const std::string& text) override { warnings.push_back(text); }

  std::vector<std::string> phases, warnings;
};

struct RecordedEvents : EventSink {
  void feed(const RunEvent& event) override { events.push_back(event); }

  std::vector<RunEvent> events;
};

}  // namespace train
