// Reads ranges of objects on threads of its own, at most kFetchesMax of them at once in a process,
// of at most kFetchBytesMax each. So the bytes that are asked for at a time are bounded; what has
// come and was not taken yet is the caller's to bound.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>

#include "lib/data/read/data_file.h"

namespace train::data {

inline constexpr std::int64_t kFetchBytesMax = 8 << 20;
inline constexpr int kFetchesMax = 8;

/// A range that is being read, or has been. If it is destroyed before, the read is given up.
class Fetch {
 public:
  struct State;
  explicit Fetch(std::shared_ptr<State> state) : state_(std::move(state)) {}
  ~Fetch();
  Fetch(const Fetch&) = delete;
  Fetch& operator=(const Fetch&) = delete;

  /// Wait for the bytes, until this thread is to stop (stop_reading.h). Any thread may call.
  arrow::Result<std::shared_ptr<arrow::Buffer>> wait();

 private:
  const std::shared_ptr<State> state_;
};
using FetchPtr = std::shared_ptr<Fetch>;

/// Begin to read `bytes` bytes, at most kFetchBytesMax, of an object that has them.
FetchPtr begin_fetch(const DataFile& file, std::int64_t offset, std::int64_t bytes);
/// Do the same, unless this range was expected (expect_reads): then its read began before.
FetchPtr start_fetch(const DataFile& file, std::int64_t offset, std::int64_t bytes);

/// Let the process end the reads and close the stores before it ends itself. Called once a store is
/// open, as what is registered last is run first.
void end_fetches_at_exit();

}  // namespace train::data
