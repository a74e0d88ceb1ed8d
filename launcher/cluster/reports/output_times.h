// When workers' output arrived: attempts/000/output.times, a line for each piece of output that the
// launcher writes into a log (FORMAT.md section 1). The time is the launcher's: one clock for all
// nodes, so that the order in the file is the order of arrival, whatever the nodes' clocks say.
// Output that waited on a node for a launcher has the time at which that launcher got it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Rank and number (1: stdout, 2: stderr) of a stream.
using StreamKey = std::pair<std::int32_t, int>;

/// Writes the file of one attempt. When it has reached its limit, every second mark of each stream
/// is dropped: the older the output, the less exact its times.
class OutputTimes {
 public:
  static constexpr std::uint64_t kBytesMax = 16u << 20;
  /// A stream gets at most one mark in this time: what comes within it has the same time.
  static constexpr auto kMarkEvery = std::chrono::milliseconds(5);

  explicit OutputTimes(std::string path, std::uint64_t bytes_max = kBytesMax)
      : path_(std::move(path)), bytes_max_(bytes_max) {}

  /// Note that the stream's output from byte `position` on arrives at `now`. Call this before the
  /// output is written: a reader that sees output then finds its mark. Return how much the file has
  /// grown.
  Result<std::uint64_t> note(StreamKey stream, std::uint64_t position,
                             std::chrono::system_clock::time_point now);

 private:
  Result<Unit> open();
  Result<Unit> thin_out();

  std::string path_;
  std::uint64_t bytes_max_, bytes_ = 0;
  FileDescriptor file_;
  std::map<StreamKey, std::chrono::system_clock::time_point> marked_;
};

/// A mark as a reader knows it.
struct OutputMark {
  std::uint64_t order = 0;  // its place in the file
  std::chrono::system_clock::time_point at;
  std::uint64_t position = 0;
};

/// Reads such a file while it grows, and while it is replaced by a thinner one.
class OutputTimesReader {
 public:
  explicit OutputTimesReader(std::string path) : path_(std::move(path)) {}

  /// Read what is new. Lines that are no marks are skipped: a launcher may have died in one.
  void update();
  /// The same, if somebody else has opened the file.
  void update(const FileDescriptor& file);
  /// Return how many marks there are, of all streams.
  std::uint64_t count() const { return count_; }
  /// Return a number that changes when the file was replaced, and all orders with it.
  std::uint64_t version() const { return version_; }
  /// Return the mark of the stream's byte `position`, or nullptr if its time is not known.
  const OutputMark* find(StreamKey stream, std::uint64_t position) const;
  /// Return the first mark of the stream, or nullptr if there is none.
  const OutputMark* first(StreamKey stream) const;

 private:
  void take(std::string_view text);

  std::string path_;
  std::uint64_t inode_ = 0, offset_ = 0, count_ = 0, version_ = 0;
  std::string partial_;  // a line without its line end yet
  std::map<StreamKey, std::vector<OutputMark>> marks_;
};

}  // namespace train
