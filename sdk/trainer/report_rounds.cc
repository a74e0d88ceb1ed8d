#include "sdk/trainer/report_rounds.h"

#include <algorithm>
#include <charconv>

namespace train::trainer {
namespace {

template <class T>
bool take(std::string_view& text, std::string_view before, T& value) {
  if (!text.starts_with(before)) return false;
  text.remove_prefix(before.size());
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<ReportFront> read_front(std::string_view line) {
  ReportFront front;
  const bool read = take(line, R"({"rank":)", front.rank) &&
                    take(line, R"(,"attempt":)", front.attempt) &&
                    take(line, R"(,"report_seq":)", front.number) && line.starts_with(',');
  return read ? std::optional(front) : std::nullopt;
}

void ReportRounds::attempt_began(int attempt, int world_size, const std::string& resumes_from) {
  if (attempt == attempt_) return;  // told again by a launcher that found it running
  const auto base = ordinals_.find(resumes_from);
  attempt_ = attempt;
  base_ = base == ordinals_.end() ? 0 : base->second;
  given_ = 0;
  waiting_.assign(static_cast<std::size_t>(std::max(world_size, 0)), {});
  counts_.assign(waiting_.size(), 0);
}

void ReportRounds::committed(const std::string& checkpoint, int attempt, std::uint64_t number) {
  if (attempt == attempt_) ordinals_[checkpoint] = base_ + number;
}

void ReportRounds::add(const ReportFront& report, LinePlace place) {
  const auto rank = static_cast<std::size_t>(report.rank);
  if (report.attempt != attempt_ || report.rank < 0 || rank >= waiting_.size()) return;
  if (report.number != counts_[rank] + 1) return;  // before this driver, or repeated
  ++counts_[rank];
  waiting_[rank].push_back(place);
}

std::optional<RoundPlaces> ReportRounds::next() {
  const auto has_none = [](const std::deque<LinePlace>& lines) { return lines.empty(); };
  if (waiting_.empty() || std::any_of(waiting_.begin(), waiting_.end(), has_none))
    return std::nullopt;
  RoundPlaces round{
      .attempt = attempt_, .number = ++given_, .ordinal = base_ + given_, .lines = {}};
  round.redone = round.ordinal <= highest_;
  highest_ = std::max(highest_, round.ordinal);
  for (std::deque<LinePlace>& lines : waiting_) {
    round.lines.push_back(lines.front());
    lines.pop_front();
  }
  return round;
}

std::vector<int> ReportRounds::missing() const {
  std::vector<int> missing;
  for (std::size_t rank = 0; rank < waiting_.size(); ++rank)
    if (waiting_[rank].empty()) missing.push_back(static_cast<int>(rank));
  if (missing.size() == waiting_.size()) missing.clear();
  return missing;
}

}  // namespace train::trainer
