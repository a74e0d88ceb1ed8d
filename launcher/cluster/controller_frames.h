// Frames of the daemons as the controller's events, and its orders as frames. Pure.
#pragma once

#include <optional>

#include "launcher/core/run_events.h"
#include "lib/wire/codec.h"

namespace train {

/// What a frame of `node` tells the controller; none where it has nothing for it, or does not
/// decode. Reports, output and results are the driver's to keep: of those, reports are told as
/// well.
std::optional<RunEvent> to_event(NodeId node, const Frame& frame);

Frame to_frame(const StopGroup& action);
Frame to_frame(const Pause& action);
Frame to_frame(const SendCollective& action);
/// `keep`: CheckpointOutcome says what.
Frame to_frame(const TellCheckpoint& action, const std::vector<std::string>& keep);

}  // namespace train
