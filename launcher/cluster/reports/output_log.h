// Keeps the run's copy of what workers print: attempts/000/ranks/0003/{stdout,stderr}.log, byte by
// byte, bounded. When a stream exceeds a third of its limit, its beginning stays as
// stdout.log.head, and the newest two thirds are in stdout.log.1 and stdout.log, each after a line
// that gives its position (log_piece.h). When the run
// exceeds its limit, the oldest output is removed: first that of earlier attempts, then the oldest
// of this one. Beside it, keeps the times at which output arrived (output_times.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "launcher/cluster/reports/output_times.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/ids.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/storage/run_folder.h"

namespace train {

struct OutputLimits {
  std::uint64_t stream_bytes = 1u << 30;
  std::uint64_t run_bytes = 1u << 30;  // of all streams and attempts
};

class OutputLog {
 public:
  /// `clock` tells the time at which output arrives; without it, times are not kept.
  OutputLog(RunFolder folder, OutputLimits limits, const Clock* clock = nullptr)
      : folder_(std::move(folder)), limits_(limits), clock_(clock) {}
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;

  /// Append what is new in [offset, offset + data.size()) of a stream, since pieces may arrive
  /// again. Return the offset that may be acknowledged, and in `fresh` the part that was new.
  Result<std::uint64_t> append(Attempt attempt, Rank rank, int number, std::uint64_t offset,
                               std::string_view data, std::string_view* fresh);
  void close(Attempt attempt);
  /// Return how many bytes were removed because of the run's limit.
  std::uint64_t removed_bytes() const { return removed_bytes_; }
  /// Return once why a time could not be kept. Output is kept nevertheless.
  std::optional<Error> take_times_error() { return std::exchange(times_error_, std::nullopt); }

 private:
  struct Stream {
    FileDescriptor fd;
    std::string path;
    std::uint64_t offset = 0;       // of the stream: everything before it is here
    std::uint64_t piece_begin = 0;  // position of the file that is being written, without headers
    std::uint64_t piece_bytes = 0;  // in that file, without its header
    bool rotated = false;           // by an earlier launcher: its offset is not known yet
  };
  Result<Stream*> stream_of(Attempt attempt, Rank rank, int number);
  static Result<std::uint64_t> held_bytes(Stream& stream);
  static bool has_head(const Stream& stream);
  static Result<Unit> write_output(Stream& stream, std::string_view data);
  void note_time(Attempt attempt, StreamKey key, const Stream& stream);
  Result<Unit> rotate(Stream& stream);
  std::uint64_t piece_bytes_max() const;
  struct Piece {    // a file of some stream
    int order = 0;  // which is removed first
    Attempt attempt = {};
    std::uint64_t bytes = 0;
    std::string path = {};
  };
  std::vector<Piece> pieces() const;
  void make_room(std::uint64_t bytes);

  RunFolder folder_;
  OutputLimits limits_;
  std::optional<std::uint64_t> held_bytes_;  // by all files; unset: not counted yet
  std::uint64_t removed_bytes_ = 0;
  std::map<std::tuple<Attempt, Rank, int>, Stream> streams_;
  const Clock* clock_;
  std::map<Attempt, OutputTimes> times_;
  bool times_fail_ = false;  // told already
  std::optional<Error> times_error_;
};

}  // namespace train
