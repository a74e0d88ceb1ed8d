#include "daemon/supervisor/part_stager.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>

#include "lib/storage/checkpoint_writer.h"

namespace train {

namespace asio = boost::asio;

asio::awaitable<PartWritten> PartStager::store(Rank rank, CheckpointStaged message,
                                               std::string run_dir, std::uint64_t epoch,
                                               Attempt attempt) {
  PartWritten part{.rank = rank.value,
                   .index = message.index,
                   .report_ordinal = message.report_ordinal,
                   .dir = {},
                   .files = {},
                   .metadata_json = message.metadata_json,
                   .error = message.error,
                   .error_code = message.error_code};
  if (!message.error.empty()) co_return part;
  const PendingCheckpoint pending{Epoch{epoch}, attempt, Ordinal{message.index}};
  const std::string folder = run_dir + "/checkpoints";
  const auto written = co_await asio::co_spawn(
      pool_,
      [](PosixFileSystem& files, std::string to, PendingCheckpoint which, Rank who,
         std::string from) -> asio::awaitable<std::optional<Result<CheckpointPart>>> {
        co_return write_part(files, to, which, who, from);
      }(files_, folder, pending, rank, message.dir),
      asio::use_awaitable);
  if (*written) {
    part.dir = (**written).folder;
    for (const PartFile& file : (**written).files)
      part.files.push_back({file.path, file.bytes, to_hex(file.digest)});
    (void)remove_tree(files_, message.dir);
  } else {
    part.error = written->error().describe();
    part.error_code = to_string(written->error().code);
  }
  co_return part;
}

}  // namespace train
