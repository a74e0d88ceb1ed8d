#include "launcher/report/log_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "launcher/report/rank_set.h"
#include "lib/base/rank_ranges.h"

namespace train {

void LogPrinter::line(std::uint32_t attempt, std::int32_t rank, std::string text,
                      std::optional<std::chrono::system_clock::time_point> at) {
  if (at) newest_ = std::max(newest_, TimePoint(at->time_since_epoch()));
  if (options_.since && at && *at < *options_.since) return;
  if (options_.grep && !options_.grep->matches(text)) return;
  Line line{attempt, rank, std::move(text), at};
  if (!tail_open_) return show(std::move(line));
  tail_bytes_ += line.text.size();
  tail_.push_back(std::move(line));
  while (tail_.size() > *options_.tail || tail_bytes_ > kTailBytesMax) {
    tail_bytes_ -= tail_.front().text.size();
    tail_.pop_front();
  }
}

void LogPrinter::end_of_part() {
  for (Line& line : std::exchange(tail_, {})) show(std::move(line));
  tail_bytes_ = 0;
}

void LogPrinter::show_all() {
  end_of_part();
  tail_open_ = false;
}

void LogPrinter::show(Line&& line) {
  if (!options_.fold) return print({std::move(line.text), {line.rank}});
  if (std::exchange(attempt_, line.attempt) != line.attempt) idle();
  if (line.at) now_ = std::max(now_, TimePoint(line.at->time_since_epoch()));
  holds_untimed_ = holds_untimed_ || !line.at;
  for (const FoldedLine& folded : folder_.feed(line.rank, line.text, now_)) print(folded);
}

void LogPrinter::due() {
  if (holds_untimed_) return idle();
  now_ = std::max(now_, newest_);
  for (const FoldedLine& folded : folder_.due(now_)) print(folded);
}

void LogPrinter::idle() {
  holds_untimed_ = false;
  for (const FoldedLine& folded : folder_.flush()) print(folded);
}

void LogPrinter::print(const FoldedLine& line) {
  if (options_.prefix) fmt::format_to(std::back_inserter(out_), "[{}] ", rank_ranges(line.ranks));
  out_ += line.text;
  out_ += '\n';
}

}  // namespace train
