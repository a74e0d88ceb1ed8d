// Decides what `train-run logs` prints of the lines that it reads: filters, the last lines only,
// folding, prefixes. Pure. The caller prints take()'s text, and calls due() after each round of
// lines, or idle() when there were none.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "launcher/report/line_filter.h"
#include "launcher/report/line_folder.h"

namespace train {

struct LogPrinterOptions {
  bool prefix = true;  // "[3] "
  bool fold = false;
  std::optional<LineFilter> grep = {};
  std::optional<std::chrono::system_clock::time_point> since = {};
  std::optional<std::size_t> tail = {};  // until show_all(): only so many lines of each part
};

class LogPrinter {
 public:
  static constexpr std::size_t kTailMax = 100'000;
  static constexpr std::size_t kTailBytesMax = 64u << 20;  // beyond, the oldest lines are dropped

  explicit LogPrinter(LogPrinterOptions options)
      : options_(std::move(options)), tail_open_(options_.tail.has_value()), folder_({}) {}

  /// Take in the next line, made safe for a terminal. A line without a time is never too old.
  void line(std::uint32_t attempt, std::int32_t rank, std::string text,
            std::optional<std::chrono::system_clock::time_point> at);
  /// End a part of the lines of which the last ones are shown: a stream, or all of them.
  void end_of_part();
  /// Show all lines from now on: those are over that were there at the beginning.
  void show_all();
  /// Show what has waited long enough for the same line of other ranks, by the time of the newest
  /// line, shown or not. Lines without a time do not wait for the next round.
  void due();
  /// Show what waits for the same line of other ranks.
  void idle();
  std::string take() { return std::exchange(out_, {}); }
  std::size_t size() const { return out_.size(); }

 private:
  struct Line {
    std::uint32_t attempt = 0;
    std::int32_t rank = 0;
    std::string text;
    std::optional<std::chrono::system_clock::time_point> at;
  };
  void show(Line&& line);
  void print(const FoldedLine& line);

  LogPrinterOptions options_;
  bool tail_open_;
  std::deque<Line> tail_;
  std::size_t tail_bytes_ = 0;
  LineFolder folder_;
  std::uint32_t attempt_ = 0;
  TimePoint now_{};             // of the newest line that is shown, on the clock of the folder
  TimePoint newest_{};          // of the newest line of all
  bool holds_untimed_ = false;  // the folder may hold lines without a time
  std::string out_;
};

}  // namespace train
