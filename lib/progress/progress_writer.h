// The worker's side of the progress page: turns what the loop does into marks. It reads no clock;
// callers pass the time. One thread at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "lib/progress/progress_page.h"

namespace train {

/// What can tell that a step has ended. The best one that the program has used counts.
enum class StepSource : std::uint8_t { Report, Batch, Backward, Program };

class ProgressWriter {
 public:
  /// A phase as it was entered, to return to it.
  struct Entered {
    Phase phase = Phase::Start;
    std::uint64_t limit = 0;
    std::array<char, kPhaseNameBytesMax> name{};
    std::size_t name_size = 0;
  };

  /// Begin in Phase::Start. `page` must outlive this object, or be replaced by move_to().
  ProgressWriter(ProgressPage& page, std::uint64_t now);

  /// Enter a phase within the current one, and return the current one for leave(). `limit` in
  /// nanoseconds; 0: none.
  Entered enter(Phase phase, std::string_view name, std::uint64_t limit, std::uint64_t now);
  /// Return to `outer`, or to the base phase if no phase is left within another. This completes a
  /// collective call.
  void leave(const Entered& outer, std::uint64_t now);
  /// Set the phase of the loop itself, outside all entered ones.
  void set_base(Phase phase, std::uint64_t now);

  /// Return the time in a phase so far, without the current stay in it.
  std::uint64_t time_in(Phase phase) const;

  /// Say what the current phase is doing: a sign of life if the text changes.
  void say(std::string_view text, std::uint64_t now);
  /// End a step, unless the program has a better source.
  void end_step(StepSource source, std::uint64_t now);

  /// Note that this checkpoint of the attempt was handed over.
  void hand_over(std::uint64_t checkpoint_seq, std::uint64_t now);

  /// Continue in another page, with everything that is known.
  void move_to(ProgressPage& page);

 private:
  void show(const Entered& now_in, std::uint64_t now);
  void pass(std::uint64_t now);
  void begin_write();
  void end_write();

  ProgressPage* page_;
  Entered current_;
  Phase base_ = Phase::Start;
  int depth_ = 0;
  StepSource step_source_ = StepSource::Report;
  std::uint64_t step_began_ = 0;  // 0: not known
};

}  // namespace train
