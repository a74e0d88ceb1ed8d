#include "daemon/supervisor/workers/worker_frames.h"

#include <fmt/format.h>

#include "lib/storage/manifest.h"

namespace train {

Result<Unit> check_reports(const ReportBatch& batch, std::uint64_t last) {
  if (batch.count > 0 && batch.first_report_seq > 0 && batch.first_report_seq <= last + 1)
    return Unit{};
  return Error{Errc::Protocol, fmt::format("got {} reports starting with {}, expected report {}",
                                           batch.count, batch.first_report_seq, last + 1)};
}

Result<Unit> check_calls(std::size_t unanswered, std::size_t bytes) {
  if (bytes > kCallBytesMax)
    return Error{Errc::ResourceExhausted,
                 fmt::format("a call has {} bytes; at most {} are allowed", bytes, kCallBytesMax)};
  if (unanswered < kUnansweredCallsMax) return Unit{};
  return Error{Errc::ResourceExhausted,
               fmt::format("more than {} calls that nobody has answered", kUnansweredCallsMax)};
}

Result<Unit> check_staged(const std::string& staging_folder, const CheckpointStaged& staged) {
  if (staged.dir != fmt::format("{}/ckpt-{}", staging_folder, staged.checkpoint_seq)) {
    return Error{Errc::InvalidArgument,
                 fmt::format("checkpoint {} was handed over in '{}', which is not its folder below "
                             "'{}'",
                             staged.checkpoint_seq, escape_name(staged.dir), staging_folder),
                 "is this worker's SDK of another version than traind?"};
  }
  if (staged.metadata_json.size() > kWorkerTextBytesMax) {
    return Error{
        Errc::ResourceExhausted,
        fmt::format("the metadata of checkpoint {} has {} bytes; at most {} are allowed",
                    staged.checkpoint_seq, staged.metadata_json.size(), kWorkerTextBytesMax),
        "put large data into a file of the checkpoint"};
  }
  return Unit{};
}

}  // namespace train
