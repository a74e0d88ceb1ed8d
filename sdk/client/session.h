// Tells the parts of the SDK (client, data, torch) about this worker: the one connection to the
// supervisor, or the world of one. Not installed: user code sees only include/train.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/histogram.h"
#include "lib/model/ingest_roster.h"
#include "lib/model/worker_ranks.h"
#include "sdk/include/train/config.h"

namespace train::sdk {

/// The key of a checkpoint's metadata that holds the datasets' positions. Users' metadata may not
/// have it.
inline constexpr const char* kPositionsKey = "data";
inline constexpr const char* kPreprocessorsKey = "preprocessors";  // of a dataset, within it

/// Everything that the supervisor hands over when the worker connects; the defaults describe a
/// world of one.
/// In a job of several roles, the ranks are those within the worker's role.
struct WorkerInfo : WorkerRanks {
  bool supervised = false;
  std::string role_name = "default";
  std::int32_t rank_of_all = 0;  // among the workers of all roles: RANK
  std::uint32_t attempt = 0;
  std::string run_id, run_name, run_dir;  // run_dir: the run's folder in storage
  /// This rank's folder for staging checkpoints, on the storage's file system if possible.
  std::string staging_dir;
  Config config;  // train_loop_config
  Dict metadata;
  /// Name → the entry that launcher/spec's datasets_json() makes.
  Dict datasets;
  std::string master_addr = "127.0.0.1";
  int master_port = 0;
  int master_listen_fd = -1;  // rank 0: the bound socket that the supervisor kept for c10d's store
  std::string collectives = "auto";  // auto | gloo | nccl
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(30);
  bool validating = false;     // started to validate the checkpoint at restore_dir
  bool keeps_workers = false;  // see begin_next_run()
  IngestRole ingest;           // of an ingest worker, which has no rank
  std::string restore_dir;     // the committed checkpoint to start from; empty: none
  std::optional<std::int64_t> restored_epoch;  // the `epoch` it was reported with
};

/// Return what this worker knows of its run; the first call connects. Throws Failure when
/// TRAINRUN_SOCKET is set and nobody answers. Any thread.
const WorkerInfo& worker_info();

/// End this process's run, whose loop has returned, and make the process a worker of the next one:
/// wait, without limit, until there is one. Whatever was learned of the old run is then out of
/// date: worker_info() is another object. Return false, and at once if the run does not keep its
/// workers, if there is no next run; the old one has ended then, too. Throws Failure when the next
/// run cannot be joined. The loop's thread.
bool begin_next_run();
/// Call `reset` at the end of every run that another may follow, before the supervisor hears of it:
/// it makes a part of the SDK as it was before the run. Any thread.
void at_run_end(void (*reset)());

/// Exchange the bytes of one collective: every rank gets every rank's bytes, by rank. Blocks;
/// throws as train::barrier() does. `name` says what the collective is for ("row counts of
/// 'train'"); errors about ranks that disagree or are missing contain it. All ranks must call in
/// the same order. ≤ 64 KiB per rank.
std::vector<std::string> all_gather(
    const std::string& name, const std::string& mine,
    std::chrono::milliseconds timeout = std::chrono::milliseconds::max());

/// Where a dataset is read.
struct DataPosition {
  std::uint64_t epoch = 0;
  std::int64_t rows_consumed = 0;
  /// What the rows that `rows_consumed` counts are, for the checkpoint (sdk/data/cursor.h).
  std::shared_ptr<const Dict> order = {};
  bool operator==(const DataPosition&) const = default;
};

/// Remember a dataset's position, so that every checkpoint that is reported from now on contains
/// it. Any thread.
void set_data_position(const std::string& dataset, const DataPosition& position);
/// Do the same with what a dataset's preprocessors have learned (sdk/data/preprocessing.h).
void set_preprocessors(const std::string& dataset, std::string fitted);

/// Return which ingest workers serve this attempt's ranks now; none without ingest workers. Any
/// thread.
IngestRoster ingest_roster();

/// Check the arguments of histogram(), and return what counts its values; nothing if this rank's
/// histograms are not kept. Throws Failure.
std::optional<HistogramCounter> begin_histogram(std::string_view name, int bins);
/// Keep a histogram for the next report. Throws Failure when it does not fit into one. Any thread.
void add_histogram(std::string_view name, const Histogram& histogram);

}  // namespace train::sdk
