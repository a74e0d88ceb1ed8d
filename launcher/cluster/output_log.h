// The run's copy of what workers printed: attempts/000/ranks/0003/{stdout,stderr}.log, byte by
// byte, bounded. Beyond a third of the limit the beginning stays as stdout.log.head, and the newest
// two thirds as stdout.log.1 and stdout.log.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "lib/base/ids.h"
#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

class OutputLog {
 public:
  OutputLog(RunFolder folder, std::uint64_t bytes_max)
      : folder_(std::move(folder)), piece_bytes_max_(bytes_max / 3) {}
  ~OutputLog();
  OutputLog(const OutputLog&) = delete;
  OutputLog& operator=(const OutputLog&) = delete;

  /// Append what is new in [offset, offset + data.size()) of a stream: pieces may come again.
  /// Returns the offset that may be acknowledged, and through `fresh` the part that was new.
  Result<std::uint64_t> append(Attempt attempt, Rank rank, int number, std::uint64_t offset,
                               std::string_view data, std::string_view* fresh);
  void close(Attempt attempt);

 private:
  struct Stream {
    int fd = -1;
    std::string path;
    std::uint64_t offset = 0;       // of the stream: all before it is here
    std::uint64_t piece_bytes = 0;  // in the file that is being written
    bool rotated = false;           // by an earlier launcher: where it was is not known yet
  };
  Result<Stream*> stream_of(Attempt attempt, Rank rank, int number);
  static Result<std::uint64_t> held_bytes(Stream& stream);
  Result<Unit> rotate(Stream& stream);

  RunFolder folder_;
  std::uint64_t piece_bytes_max_;
  std::map<std::tuple<Attempt, Rank, int>, Stream> streams_;
};

}  // namespace train
