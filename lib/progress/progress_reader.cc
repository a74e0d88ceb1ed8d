#include "lib/progress/progress_reader.h"

#include <algorithm>
#include <limits>

#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr int kTriesMax = 1000;  // a mark takes some 50 ns

std::int64_t microseconds(std::uint64_t nanoseconds) {
  return static_cast<std::int64_t>(nanoseconds / 1000);
}

template <std::size_t N>
std::string text_of(const ProgressPage::Text<N>& text) {
  const std::size_t size = std::min<std::uint64_t>(text.size.load(kRelaxed), N);
  std::string read(size, '\0');
  for (std::size_t i = 0; i < size; ++i) read[i] = text.bytes[i].load(kRelaxed);
  return read;
}

WorkerProgress read_once(const ProgressPage& page, std::uint64_t now) {
  const std::uint64_t phase = page.phase.load(kRelaxed);
  const std::uint64_t sign = page.sign_of_life.load(kRelaxed);
  WorkerProgress progress{.phase = phase < kPhases.size() ? static_cast<Phase>(phase) : Phase::None,
                          .name = text_of(page.name),
                          .text = text_of(page.text),
                          .quiet_us = sign < now ? microseconds(now - sign) : 0,
                          .limit_us = microseconds(page.limit.load(kRelaxed)),
                          .signs = page.signs.load(kRelaxed),
                          .steps = page.steps.load(kRelaxed),
                          .last_step_us = microseconds(page.last_step.load(kRelaxed)),
                          .collectives = page.collectives.load(kRelaxed)};
  progress.intervals.reserve(page.intervals.size());
  for (const ProgressPage::Intervals& intervals : page.intervals)
    progress.intervals.push_back({intervals.count.load(kRelaxed),
                                  microseconds(intervals.total.load(kRelaxed)),
                                  microseconds(intervals.longest.load(kRelaxed))});
  for (const ProgressPage::HandedOver& one : page.handed_over) {
    const std::uint64_t checkpoint_seq = one.checkpoint_seq.load(kRelaxed);
    if (checkpoint_seq != 0)
      progress.handed_over.push_back({checkpoint_seq, microseconds(one.step.load(kRelaxed))});
  }
  return progress;
}

}  // namespace

WorkerProgress read_progress(const ProgressPage& page, std::uint64_t now) {
  if (page.version.load(std::memory_order_acquire) == 0) return {};
  WorkerProgress progress;
  for (int tries = 0; tries < kTriesMax; ++tries) {
    const std::uint64_t before = page.writes.load(std::memory_order_acquire);
    progress = read_once(page, now);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && before == page.writes.load(kRelaxed)) break;
  }
  for (std::string* text : {&progress.name, &progress.text})
    *text = terminal_safe(utf8_text(*text));
  return progress;
}

}  // namespace train
