#include "lib/progress/progress_writer.h"

#include <algorithm>

namespace train {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// Only one process writes, so a plain load and store suffice.
void add(ProgressPage::Number& number, std::uint64_t amount) {
  number.store(number.load(kRelaxed) + amount, kRelaxed);
}

template <std::size_t N>
void set_text(ProgressPage::Text<N>& to, std::string_view text) {
  const std::size_t size = std::min(text.size(), N);
  to.size.store(size, kRelaxed);
  for (std::size_t i = 0; i < size; ++i) to.bytes[i].store(text[i], kRelaxed);
}

template <std::size_t N>
bool equals(const ProgressPage::Text<N>& shown, std::string_view text) {
  const std::size_t size = std::min(text.size(), N);
  if (shown.size.load(kRelaxed) != size) return false;
  for (std::size_t i = 0; i < size; ++i)
    if (shown.bytes[i].load(kRelaxed) != text[i]) return false;
  return true;
}

template <std::size_t N>
void copy_text(const ProgressPage::Text<N>& from, ProgressPage::Text<N>& to) {
  to.size.store(from.size.load(kRelaxed), kRelaxed);
  for (std::size_t i = 0; i < N; ++i) to.bytes[i].store(from.bytes[i].load(kRelaxed), kRelaxed);
}

}  // namespace

ProgressWriter::ProgressWriter(ProgressPage& page, std::uint64_t now) : page_(&page) {
  page_->sign_of_life.store(now, kRelaxed);
  show(current_, now);
  page_->version.store(ProgressPage::kVersion, std::memory_order_release);
}

// A reader that sees an odd number, or another number after it has read, reads again. The fences
// are those of Boehm, "Can seqlocks get along with programming language memory models?" (2012).
void ProgressWriter::begin_write() {
  add(page_->writes, 1);
  std::atomic_thread_fence(std::memory_order_release);
}

void ProgressWriter::end_write() {
  page_->writes.store(page_->writes.load(kRelaxed) + 1, std::memory_order_release);
}

/// Add the time since the last sign of life to the current phase: this is another sign.
void ProgressWriter::pass(std::uint64_t now) {
  const std::uint64_t since = page_->sign_of_life.load(kRelaxed);
  const std::uint64_t passed = now > since ? now - since : 0;
  ProgressPage::Intervals& intervals = page_->intervals[static_cast<std::size_t>(current_.phase)];
  add(intervals.count, 1);
  add(intervals.total, passed);
  if (passed > intervals.longest.load(kRelaxed)) intervals.longest.store(passed, kRelaxed);
  page_->sign_of_life.store(now, kRelaxed);
  add(page_->signs, 1);
}

std::uint64_t ProgressWriter::time_in(Phase phase) const {
  return page_->intervals[static_cast<std::size_t>(phase)].total.load(kRelaxed);
}

void ProgressWriter::show(const Entered& now_in, std::uint64_t now) {
  begin_write();
  pass(now);
  page_->phase.store(static_cast<std::uint64_t>(now_in.phase), kRelaxed);
  page_->limit.store(now_in.limit, kRelaxed);
  set_text(page_->name, {now_in.name.data(), now_in.name_size});
  page_->text.size.store(0, kRelaxed);
  end_write();
  current_ = now_in;
}

ProgressWriter::Entered ProgressWriter::enter(Phase phase, std::string_view name,
                                              std::uint64_t limit, std::uint64_t now) {
  const Entered outer = current_;
  Entered inner{.phase = phase, .limit = limit};
  inner.name_size = std::min(name.size(), inner.name.size());
  std::copy_n(name.begin(), inner.name_size, inner.name.begin());
  show(inner, now);
  ++depth_;
  return outer;
}

void ProgressWriter::leave(const Entered& outer, std::uint64_t now) {
  depth_ = std::max(depth_ - 1, 0);
  if (current_.phase == Phase::Collective) add(page_->collectives, 1);
  show(depth_ == 0 ? Entered{.phase = base_} : outer, now);
}

void ProgressWriter::set_base(Phase phase, std::uint64_t now) {
  base_ = phase;
  if (depth_ == 0 && current_.phase != phase) show(Entered{.phase = phase}, now);
}

void ProgressWriter::say(std::string_view text, std::uint64_t now) {
  if (equals(page_->text, text)) return;
  begin_write();
  pass(now);
  set_text(page_->text, text);
  end_write();
}

void ProgressWriter::end_step(StepSource source, std::uint64_t now) {
  if (source < step_source_) return;
  if (source > step_source_) step_began_ = 0;  // the sources may count different things
  step_source_ = source;
  begin_write();
  pass(now);
  add(page_->steps, 1);
  if (base_ == Phase::Start) {  // the loop has begun
    base_ = Phase::Step;
    if (depth_ == 0) {
      current_.phase = base_;
      page_->phase.store(static_cast<std::uint64_t>(base_), kRelaxed);
    }
  }
  if (step_began_ != 0) page_->last_step.store(now - std::min(step_began_, now), kRelaxed);
  end_write();
  step_began_ = now;
}

void ProgressWriter::hand_over(std::uint64_t checkpoint_seq, std::uint64_t now) {
  std::uint64_t step = page_->intervals[static_cast<std::size_t>(Phase::Step)].total.load(kRelaxed);
  if (current_.phase == Phase::Step)
    step += now - std::min(now, page_->sign_of_life.load(kRelaxed));
  begin_write();
  ProgressPage::HandedOver& place = page_->handed_over[checkpoint_seq % kHandedOverMax];
  place.checkpoint_seq.store(checkpoint_seq, kRelaxed);
  place.step.store(step, kRelaxed);
  end_write();
}

void ProgressWriter::move_to(ProgressPage& page) {
  ProgressPage& from = *page_;
  page_ = &page;
  begin_write();
  for (const auto field : {&ProgressPage::phase, &ProgressPage::limit, &ProgressPage::sign_of_life,
                           &ProgressPage::signs, &ProgressPage::steps, &ProgressPage::last_step,
                           &ProgressPage::collectives})
    (page.*field).store((from.*field).load(kRelaxed), kRelaxed);
  for (std::size_t i = 0; i < page.intervals.size(); ++i) {
    page.intervals[i].count.store(from.intervals[i].count.load(kRelaxed), kRelaxed);
    page.intervals[i].total.store(from.intervals[i].total.load(kRelaxed), kRelaxed);
    page.intervals[i].longest.store(from.intervals[i].longest.load(kRelaxed), kRelaxed);
  }
  for (std::size_t i = 0; i < page.handed_over.size(); ++i) {
    const ProgressPage::HandedOver& one = from.handed_over[i];
    page.handed_over[i].checkpoint_seq.store(one.checkpoint_seq.load(kRelaxed), kRelaxed);
    page.handed_over[i].step.store(one.step.load(kRelaxed), kRelaxed);
  }
  copy_text(from.name, page.name);
  copy_text(from.text, page.text);
  end_write();
  page.version.store(ProgressPage::kVersion, std::memory_order_release);
}

}  // namespace train
