// Reads what the workers of a run have printed, line by line, while the run goes on or after it:
// rank by rank, or all ranks in order of time (output_times.h). Works on copies of a run's folder,
// and without times, as runs of earlier versions have none.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/cluster/reports/log_follower.h"
#include "launcher/cluster/reports/output_times.h"
#include "launcher/report/output_lines.h"
#include "launcher/report/rank_set.h"
#include "lib/storage/run_folder.h"

namespace train {

struct LogSelection {
  std::optional<RankSet> ranks = {};          // unset: all
  int stream = 0;                             // 1: stdout, 2: stderr, 0: both
  std::optional<std::uint32_t> attempt = {};  // unset: the newest, and those that follow
};

struct LogLine {
  std::uint32_t attempt = 0;
  std::int32_t rank = 0;
  std::string text;                                              // made safe for a terminal
  std::optional<std::chrono::system_clock::time_point> at = {};  // when it arrived, at the latest
};

class RunLogs {
 public:
  using Sink = std::function<void(LogLine&&)>;

  RunLogs(RunFolder folder, LogSelection selection)
      : folder_(std::move(folder)), selection_(std::move(selection)) {}

  /// Look for streams that are new, of the newest attempts unless one is selected.
  void find();
  /// Skip everything that the streams contain now.
  void skip_to_end();
  /// Return the ranks that have streams.
  std::vector<std::int32_t> ranks() const;
  /// Return the newest attempt that was looked at; nothing if there is none.
  std::optional<std::uint32_t> newest_attempt() const { return newest_; }
  /// Return the attempts of which lines were given without their times, each attempt only once.
  std::set<std::uint32_t> take_untimed() { return std::exchange(untimed_, {}); }

  /// Give the lines that are new, one stream after the other; call `drained` after each stream.
  /// `to_the_end`: no more will come. Return whether there were any.
  bool read(bool to_the_end, const Sink& sink, const std::function<void()>& drained);
  /// Give the lines of all streams in order of time. Unless `to_the_end`, hold back what has
  /// arrived since the previous call, because output that came before it may not be visible yet.
  bool merge(bool to_the_end, const Sink& sink);

 private:
  struct Line {
    std::string text;
    std::uint64_t last_byte = 0;
  };
  struct Source {
    std::uint32_t attempt = 0;
    StreamKey key;
    LogFollower log;
    LogText read = {};
    std::size_t fed = 0;  // so much of `read` has gone into `lines`
    StreamLines lines = {};
    std::deque<Line> ready = {};  // a line, or the parts of a long one
    std::uint64_t until = 0;      // to read up to here
  };
  struct Times {
    OutputTimesReader reader;
    std::uint64_t complete = 0;  // the output of so many marks is visible
    std::uint64_t version = 0;   // of the reader, when that was counted
  };
  struct Next {  // the next line of a source, in the order in which lines are given
    std::uint32_t attempt = 0;
    std::uint64_t order = 0;
    std::size_t source = 0;
    auto operator<=>(const Next&) const = default;
  };
  void find(std::uint32_t attempt);
  void look();
  bool fill(Source& source, bool to_the_end);
  std::optional<Next> next_of(std::size_t index, bool to_the_end);
  void give(Source& source, const Sink& sink);

  RunFolder folder_;
  LogSelection selection_;
  std::vector<Source> sources_;  // sorted by attempt, rank and stream
  std::set<std::pair<std::uint32_t, StreamKey>> known_;
  std::map<std::uint32_t, Times> times_;
  std::optional<std::uint32_t> newest_;
  std::set<std::uint32_t> untimed_, told_untimed_;
};

}  // namespace train
