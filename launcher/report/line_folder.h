// Folds identical lines of many ranks into one: "[0-3,5] loading data". Pure: takes lines and the
// time, returns what to show. A line is held back for at most the window, in which the same line of
// other ranks joins it. Each rank's lines keep their order, and none is lost: whoever takes the
// folded lines apart gets exactly the lines of each rank.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lib/base/time.h"

namespace train {

struct FoldedLine {
  std::string text;
  std::vector<std::int32_t> ranks;  // sorted
  bool operator==(const FoldedLine&) const = default;
};

class LineFolder {
 public:
  struct Options {
    Duration window = milliseconds(100);
    std::size_t lines_max = 16'384;    // held back
    std::size_t bytes_max = 4u << 20;  // of their text
  };
  explicit LineFolder(Options options) : options_(options) {}

  /// Set how many ranks print: a line of all of them waits for no other. 0: not known.
  void ranks_are(std::size_t count) { ranks_ = count; }
  /// Take in a line, and return what may be shown now. `now` never goes back.
  std::vector<FoldedLine> feed(std::int32_t rank, std::string_view text, TimePoint now);
  /// Return the lines whose window is over.
  std::vector<FoldedLine> due(TimePoint now);
  /// Return all lines that are held back.
  std::vector<FoldedLine> flush();
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Held {
    FoldedLine line;
    TimePoint since;
  };
  // A line is known by its number: how many came before it. Those before first_ have been shown.
  Held* find(std::int32_t rank, std::string_view text);
  void pop(std::vector<FoldedLine>& out);
  void show(TimePoint now, std::vector<FoldedLine>& out);

  Options options_;
  std::size_t ranks_ = 0;
  std::deque<Held> held_;
  std::uint64_t first_ = 0;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string_view, std::deque<std::uint64_t>> by_text_;  // texts of held_
  std::unordered_map<std::int32_t, std::uint64_t> after_;  // rank → number after its newest line
};

}  // namespace train
