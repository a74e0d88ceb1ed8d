// The worker's side of a checkpoint that somebody asked for (lib/wire/PROTOCOL.md, "A checkpoint
// now"): decides where this rank waits, and where it makes the checkpoint. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/model/checkpoint_order.h"

namespace train::sdk {

class CheckpointGate {
 public:
  /// Handle an order; one that is late or repeated changes nothing. Return whether to tell how far
  /// this rank has got.
  bool order(const CheckpointOrder& order);

  /// Return whether the next report, and the next call of checkpoint_requested(), must wait: the
  /// launcher chooses where all ranks make the checkpoint.
  bool holds() const { return asked_ > decided_; }
  /// Return the request to answer with a checkpoint of this report; 0: none.
  std::uint64_t take_report(std::uint64_t report_seq);
  /// Return the request for which this call of checkpoint_requested() returns true; 0: none.
  std::uint64_t take_call(std::uint64_t call);

 private:
  std::uint64_t asked_ = 0, decided_ = 0;  // the newest requests
  /// The checkpoints that are still to be made. A second one follows only where a launcher has
  /// replaced another.
  std::vector<CheckpointOrder> to_make_;
};

}  // namespace train::sdk
