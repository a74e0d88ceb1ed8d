#include "daemon/supervisor/checkpoints/shard_writers.h"

#include <fmt/format.h>

#include <atomic>
#include <boost/asio/post.hpp>
#include <cerrno>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/thread.h"

namespace train {

struct ShardWriters::Job {
  explicit Job(ShardOrder asked) : order(std::move(asked)) {}
  const ShardOrder order;
  std::stop_source stop = {};
  std::atomic_flag resolved = {};  // set by its thread when that has finished, or by giving it up
  std::optional<Result<CheckpointShard>> result = std::nullopt;
};

/// Removes what was staged for shards that no thread was started for. The storage may hang, so this
/// runs on a thread, and on one at most.
struct ShardWriters::UnwrittenShards {
  std::mutex mutex;
  std::vector<std::string> staged;
  bool removing = false;

  std::optional<std::string> next() {
    const std::lock_guard lock(mutex);
    removing = !staged.empty();
    if (!removing) return std::nullopt;
    std::string folder = std::move(staged.back());
    staged.pop_back();
    return folder;
  }
};

namespace {

void remove_late(FileSystem& files, const ShardOrder& order,
                 const Result<CheckpointShard>& written) {
  const std::string pending = join_path(order.checkpoints, pending_name(order.pending));
  if (written) (void)remove_tree(files, join_path(pending, written->dir));
  (void)files.remove_folder(pending);  // fails if other ranks have shards there
}

}  // namespace

ShardWriters::ShardWriters(asio::any_io_executor executor, const Clock& clock,
                           std::shared_ptr<FileSystem> files, Duration limit)
    : executor_(executor),
      clock_(clock),
      files_(std::move(files)),
      limit_(limit),
      unwritten_(std::make_shared<UnwrittenShards>()),
      changed_(executor) {}

Task<CheckpointShard> ShardWriters::write(ShardOrder order) {
  const TimePoint deadline = clock_.now() + limit_;
  // Threads that are writing now may hang later, too.
  while (given_up_ || writing_ == kShardWritersMax || writing_ + hanging_ >= kHangingWritersMax) {
    if (given_up_ || clock_.now() >= deadline) {
      remove_staged(order);
      co_return given_up(order);
    }
    const auto woken = co_await changed_.wait_until(deadline);
    if (woken.has_error()) co_return woken.error();
  }
  const auto job = std::make_shared<Job>(std::move(order));
  const auto started = start(job);
  if (started.has_error()) {
    remove_staged(job->order);
    co_return started.error();
  }
  ++writing_;
  TimePoint wake = deadline;
  bool late = false;
  while (!job->result && !late) {
    const auto woken = co_await changed_.wait_until(wake);
    if (woken.has_error()) co_return woken.error();
    if (!given_up_ && clock_.now() < deadline) continue;
    late = !job->resolved.test_and_set();
    wake = TimePoint::max();  // if resolved by its thread, the result is on its way
  }
  --writing_;
  changed_.notify();
  if (!late) co_return std::move(*job->result);
  job->stop.request_stop();
  Error error = given_up(job->order);
  ++hanging_;
  co_return error;
}

Result<Unit> ShardWriters::start(const std::shared_ptr<Job>& job) {
  return start_unjoined_thread("trainrun-shard", [this, job, files = files_] {
    auto written = write_shard(*files, job->order.checkpoints, job->order.pending, job->order.rank,
                               job->order.staged, {}, job->stop.get_token());
    (void)remove_tree(*files, job->order.staged);
    const bool in_time = !job->resolved.test_and_set();
    if (!in_time) remove_late(*files, job->order, written);
    asio::post(executor_, [this, job, in_time, written = std::move(written)]() mutable {
      if (in_time)
        job->result = std::move(written);
      else
        --hanging_;
      changed_.notify();
    });
  });
}

void ShardWriters::remove_staged(const ShardOrder& order) {
  const std::lock_guard lock(unwritten_->mutex);
  unwritten_->staged.push_back(order.staged);
  if (unwritten_->removing) return;
  const auto started =
      start_unjoined_thread("trainrun-shard", [files = files_, unwritten = unwritten_] {
        while (const auto staged = unwritten->next()) (void)remove_tree(*files, *staged);
      });
  unwritten_->removing = started.has_value();  // if not, the next one tries again
}

void ShardWriters::give_up() {
  given_up_ = true;
  changed_.notify();
}

Error ShardWriters::given_up(const ShardOrder& order) const {
  if (given_up_) return Error{Errc::Cancelled, "it is no longer needed"};
  std::string what =
      fmt::format("not stored within {} in '{}'", format_duration(limit_), order.checkpoints);
  if (hanging_ > 0) what += fmt::format(", where {} more hang", hanging_);
  return Error{Errc::Timeout, std::move(what),
               "is that storage slow, or its server unreachable? checkpoint_config.upload_timeout "
               "is the limit"};
}

}  // namespace train
