// Tells programs what happens to the run, one line of JSON for each event (docs/driver.md): those
// that read stdout of `--events all`, and a driver. Pure but for its sinks. The lines that follow
// an attempt's end wait until that attempt's reports are in metrics.jsonl, so that whoever has read
// as much as the last `logged` says knows all reports of the attempt.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/progress.h"

namespace train {

class DriverEvents {
 public:
  /// Takes a line with its newline. `newest`: it says all that the line before said, if that was
  /// `newest` as well.
  using Sink = std::function<void(std::string line, bool newest)>;

  DriverEvents(ProgressOptions options, Moment at);
  void add(Sink sink) { sinks_.push_back(std::move(sink)); }

  /// Tell what `say(progress)` returns; "": nothing.
  template <class Say>
  void tell(Say&& say) {
    if (!sinks_.empty()) put(say(progress_));
  }
  void put(std::string line);
  void logged(std::uint64_t bytes, Moment at);
  /// Hold back what is told from here on until the n-th flush of the reports is done.
  void hold_until(std::uint64_t flush);
  void flushed(std::uint64_t flush);

 private:
  struct Held {
    std::string line = {};
    std::uint64_t until = 0;  // in place of a line: a flush
  };
  void pass_on(const std::string& line, bool newest);

  Progress progress_;
  std::vector<Sink> sinks_;
  std::deque<Held> held_;
  std::uint64_t flushed_ = 0, logged_ = 0;
};

}  // namespace train
