#include "lib/data/read/fetcher.h"

#include <arrow/buffer.h>
#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "lib/base/check.h"
#include "lib/base/thread.h"
#include "lib/data/arrow_error.h"
#include "lib/data/read/object_place.h"
#include "lib/data/read/stop_reading.h"

namespace train::data {
namespace {

constexpr milliseconds kLookAgain{50};  // whether a wait is to stop
constexpr Duration kLeaveWithin = seconds(5);

thread_local const std::atomic<bool>* stopped_by = nullptr;

using Bytes = std::shared_ptr<arrow::Buffer>;

}  // namespace

StopReading::StopReading(const std::atomic<bool>& stopped) : before_(stopped_by) {
  stopped_by = &stopped;
}
StopReading::~StopReading() { stopped_by = before_; }
bool reading_is_stopped() { return stopped_by != nullptr && *stopped_by; }

struct Fetch::State {
  State(const DataFile& of, std::int64_t at, std::int64_t count)
      : file(of), offset(at), bytes(count) {}

  const DataFile file;
  const std::int64_t offset, bytes;
  std::atomic<bool> unwanted = false;
  std::mutex mutex;
  std::condition_variable came;
  std::optional<arrow::Result<Bytes>> result;

  void finish(arrow::Result<Bytes> with) {
    const std::lock_guard lock(mutex);
    result = std::move(with);
    came.notify_all();
  }
};

namespace {

using StatePtr = std::shared_ptr<Fetch::State>;

class Fetcher {
 public:
  void start(StatePtr fetch) {
    if (::getpid() != process_)
      return fetch->finish(arrow::Status::IOError(
          "this process was forked from one that reads datasets from an object store, and cannot"));
    const std::lock_guard lock(mutex_);
    if (ending_) return fetch->finish(arrow::Status::Cancelled("the program is ending"));
    waiting_.push_back(std::move(fetch));
    const auto threads = static_cast<int>(threads_.size());
    if (idle_ < static_cast<int>(waiting_.size()) && threads < kFetchesMax)
      threads_.push_back(start_thread("trainrun-fetch", [this] { run(); }));
    changed_.notify_one();
  }

  /// End the threads, but for those that do not come back from a store in time.
  void end() {
    if (::getpid() != process_) return;
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    const auto threads = static_cast<int>(threads_.size());
    const bool all = ended_changed_.wait_for(lock, kLeaveWithin, [&] { return ended_ == threads; });
    lock.unlock();
    if (!all) return;  // nobody destroys what they use
    for (std::thread& thread : threads_) thread.join();
    close_object_stores();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      changed_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
      --idle_;
      if (ending_) break;
      const StatePtr fetch = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      fetch->finish(fetch->unwanted ? arrow::Status::Cancelled("nobody waits for it")
                                    : read(*fetch));
      lock.lock();
    }
    for (const StatePtr& fetch : waiting_)
      fetch->finish(arrow::Status::Cancelled("the program is ending"));
    waiting_.clear();
    ++ended_;
    ended_changed_.notify_all();
  }

  arrow::Result<Bytes> read(const Fetch::State& fetch) {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer,
                          arrow::AllocateBuffer(fetch.bytes));
    const auto done = fetch.file.place->store().read_range(
        {.key = fetch.file.place->key_of(fetch.file.path),
         .version = fetch.file.version,
         .offset = static_cast<std::uint64_t>(fetch.offset),
         .to = reinterpret_cast<char*>(buffer->mutable_data()),
         .bytes = static_cast<std::size_t>(fetch.bytes),
         .cancelled = [&] { return fetch.unwanted || ending_; }});
    if (done.has_error()) return status_from(done.error());
    return buffer;
  }

  const pid_t process_ = ::getpid();
  std::mutex mutex_;
  std::condition_variable changed_, ended_changed_;
  std::deque<StatePtr> waiting_;
  std::vector<std::thread> threads_;
  int idle_ = 0, ended_ = 0;
  std::atomic<bool> ending_ = false;
};

Fetcher& fetcher() {
  static Fetcher& one = *new Fetcher;  // never destroyed, as its threads may outlive main
  return one;
}

}  // namespace

Fetch::~Fetch() { state_->unwanted = true; }

arrow::Result<std::shared_ptr<arrow::Buffer>> Fetch::wait() {
  std::unique_lock lock(state_->mutex);
  while (!state_->result) {
    if (reading_is_stopped()) return arrow::Status::Cancelled("nobody waits for these rows");
    state_->came.wait_for(lock, kLookAgain);
  }
  return *state_->result;
}

FetchPtr start_fetch(const DataFile& file, std::int64_t offset, std::int64_t bytes) {
  FetchPtr begun = file.place->expected().take(file, offset, bytes);
  return begun != nullptr ? begun : begin_fetch(file, offset, bytes);
}

FetchPtr begin_fetch(const DataFile& file, std::int64_t offset, std::int64_t bytes) {
  TRAIN_CHECK(bytes > 0 && bytes <= kFetchBytesMax && offset >= 0, "a fetch has a bounded size");
  auto state = std::make_shared<Fetch::State>(file, offset, bytes);
  fetcher().start(state);
  return std::make_shared<Fetch>(std::move(state));
}

void end_fetches_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] { std::atexit([] { fetcher().end(); }); });
}

}  // namespace train::data
