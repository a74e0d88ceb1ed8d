#include "launcher/cluster/run/output_receiver.h"

#include <utility>

#include "lib/wire/codec.h"

namespace train {

void OutputReceiver::received(NodeId node, Attempt attempt, const OutputChunk& chunk) {
  std::string_view fresh;
  auto acked =
      log_.append(attempt, Rank{chunk.rank}, chunk.stream, chunk.offset, chunk.data, &fresh);
  const bool failed = acked.has_error();
  if (failed && !fails_) screen_.warn("workers' output is lost: " + acked.error().describe());
  fails_ = failed;
  // The worker cannot end before all of its output is acknowledged. The log tells how much is lost.
  if (failed) acked = chunk.offset + chunk.data.size();
  if (const auto why = log_.take_times_error())
    screen_.warn("`train-run logs` will not know the times of later output: " + why->describe());
  if (log_.removed_bytes() > 0 && !std::exchange(was_removed_, true))
    summary_builder_.warn("the run's output has reached 1 GiB: the oldest of it is removed");
  screen_.worker_output(links_.name(node), chunk.rank, chunk.stream, fresh, chunk.end);
  if (!chunk.end) links_.send(node, encode(AckOutput{chunk.rank, chunk.stream, *acked}, attempt));
}

}  // namespace train
