// Takes in what the workers print: writes it to their logs, acknowledges it to the node, and shows
// it. Main thread only.
#pragma once

#include "launcher/cluster/links/node_links.h"
#include "launcher/cluster/reports/output_log.h"
#include "launcher/cluster/run/run_screen.h"
#include "launcher/cluster/run/run_summary_builder.h"
#include "lib/wire/attempt_messages.h"

namespace train {

class OutputReceiver {
 public:
  /// All parts outlive this object.
  OutputReceiver(const RunFolder& folder, const Clock& clock, NodeLinks& links, RunScreen& screen,
                 RunSummaryBuilder& summary_builder)
      : log_(folder, OutputLimits{}, &clock),
        links_(links),
        screen_(screen),
        summary_builder_(summary_builder) {}

  /// Take in a piece of a stream. Output that cannot be written is lost, which is said once.
  void received(NodeId node, Attempt attempt, const OutputChunk& chunk);
  /// Close the logs of an attempt that has ended.
  void close(Attempt attempt) { log_.close(attempt); }

 private:
  OutputLog log_;
  NodeLinks& links_;
  RunScreen& screen_;
  RunSummaryBuilder& summary_builder_;
  bool fails_ = false;  // the newest could not be written
  bool was_removed_ = false;
};

}  // namespace train
