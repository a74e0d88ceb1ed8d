// Decides which of the workers' lines a terminal shows, and how: with a prefix, identical lines of
// several ranks as one (line_folder.h), and not more than so many a second (line_cap.h). Pure. The
// files keep everything. The caller writes what the functions return, which are whole lines, and
// calls due() when next_deadline() has come.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/report/line_cap.h"
#include "launcher/report/line_folder.h"
#include "launcher/report/line_prefix.h"
#include "launcher/report/output_lines.h"
#include "launcher/report/rank_set.h"
#include "launcher/report/stream_choice.h"

namespace train {

struct OutputViewOptions {
  bool fold = true;
  Duration window = milliseconds(100);  // for which a line waits for the same one of other ranks
  LinePrefix prefix = {};
  std::optional<RankSet> local_ranks = {};  // unset: all
  /// Streams that only the files have, unless `tee` names them, too.
  StreamChoice redirects = {}, tee = {};
  /// Of each rank, a second; all ranks together may print kRunFactor times as many. 0: all.
  std::uint64_t lines_max = 0;
};

class OutputView {
 public:
  static constexpr std::uint64_t kRunFactor = 8;

  explicit OutputView(OutputViewOptions options);

  /// Begin an attempt: its workers, by rank, have these local ranks, and these roles if there are
  /// several. Return what close() returns.
  std::string begin(std::uint32_t attempt, const std::vector<std::int32_t>& local_ranks,
                    const std::vector<std::string>& roles = {});
  /// Take in what a worker has printed. `end`: the stream is closed.
  std::string feed(const std::string& node, std::int32_t rank, int stream, std::string_view data,
                   bool end, TimePoint now);
  std::string due(TimePoint now);
  /// Return the lines that are held back, before something else is shown.
  std::string flush();
  /// Do the same at the end of an attempt: lines without a line end, and all counts, are shown too.
  std::string close();
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Worker {
    LineOrigin origin;
    std::string prefix;                        // of its own lines
    std::array<bool, 2> shown = {true, true};  // stdout, stderr
    LineCap cap;
    std::map<int, StreamLines> streams = {};  // by number
  };
  bool shows(std::int32_t local_rank, int stream) const;
  Worker& worker(const std::string& node, std::int32_t rank);
  void line(Worker& worker, std::string_view text, TimePoint now, std::string& out);
  void note_dropped(Worker& worker, TimePoint now, std::string& out);
  void pass(const Worker& worker, std::string_view text, TimePoint now, std::string& out);
  void show(const std::vector<FoldedLine>& lines, TimePoint now, std::string& out);
  void note_dropped_of_run(std::string& out);

  const OutputViewOptions options_;
  std::uint32_t attempt_ = 0;
  std::vector<std::int32_t> local_ranks_;
  std::vector<std::string> roles_;
  std::map<std::int32_t, Worker> workers_;  // by rank
  std::set<std::int32_t> dropping_;         // ranks of which lines were not shown, not told yet
  LineFolder folder_;
  LineCap run_cap_;
  TimePoint now_{};  // of the newest call
};

}  // namespace train
