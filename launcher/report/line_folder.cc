#include "launcher/report/line_folder.h"

#include <algorithm>
#include <utility>

namespace train {

/// Return the first held line of this text that is behind all lines of the rank. A line before one
/// of them would change the rank's order.
LineFolder::Held* LineFolder::find(std::int32_t rank, std::string_view text) {
  const auto found = by_text_.find(text);
  if (found == by_text_.end()) return nullptr;
  const auto after = after_.find(rank);
  const std::uint64_t from = after == after_.end() ? 0 : after->second;
  const std::deque<std::uint64_t>& numbers = found->second;
  const auto number = std::lower_bound(numbers.begin(), numbers.end(), from);
  if (number == numbers.end()) return nullptr;
  after_[rank] = *number + 1;
  return &held_[*number - first_];
}

std::vector<FoldedLine> LineFolder::feed(std::int32_t rank, std::string_view text, TimePoint now) {
  std::vector<FoldedLine> out;
  show(now, out);
  if (Held* same = find(rank, text)) {
    std::vector<std::int32_t>& ranks = same->line.ranks;
    ranks.insert(std::lower_bound(ranks.begin(), ranks.end(), rank), rank);
    show(now, out);
    return out;
  }
  const std::uint64_t number = first_ + held_.size();
  held_.push_back({{std::string(text), {rank}}, now});
  by_text_[held_.back().line.text].push_back(number);  // a deque's elements do not move
  after_[rank] = number + 1;
  bytes_ += text.size();
  show(now, out);
  return out;
}

void LineFolder::pop(std::vector<FoldedLine>& out) {
  Held& oldest = held_.front();
  const auto found = by_text_.find(oldest.line.text);
  found->second.pop_front();  // the lines of a text leave in their order
  bytes_ -= oldest.line.text.size();
  if (found->second.empty()) {
    by_text_.erase(found);
    out.push_back(std::move(oldest.line));
  } else {  // the key is this line's text: let it be that of the next one
    auto node = by_text_.extract(found);
    node.key() = held_[node.mapped().front() - first_].line.text;
    by_text_.insert(std::move(node));
    out.push_back(std::move(oldest.line));
  }
  held_.pop_front();
  ++first_;
}

/// Take out the lines that need not wait: their window is over, all ranks have them, or there are
/// too many.
void LineFolder::show(TimePoint now, std::vector<FoldedLine>& out) {
  while (!held_.empty()) {
    const Held& oldest = held_.front();
    const bool whole = ranks_ > 0 && oldest.line.ranks.size() >= ranks_;
    const bool full = held_.size() > options_.lines_max || bytes_ > options_.bytes_max;
    if (!whole && !full && now - oldest.since < options_.window) return;
    pop(out);
  }
}

std::vector<FoldedLine> LineFolder::due(TimePoint now) {
  std::vector<FoldedLine> out;
  show(now, out);
  return out;
}

std::vector<FoldedLine> LineFolder::flush() {
  std::vector<FoldedLine> out;
  while (!held_.empty()) pop(out);
  after_.clear();
  return out;
}

std::optional<TimePoint> LineFolder::next_deadline() const {
  if (held_.empty()) return std::nullopt;
  return held_.front().since + options_.window;
}

}  // namespace train
