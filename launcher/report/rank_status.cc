#include "launcher/report/rank_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <tuple>

#include "launcher/report/rank_set.h"
#include "lib/base/size_text.h"
#include "lib/base/terminal_text.h"
#include "lib/base/time.h"

namespace train {
namespace {

using Cells = std::vector<std::string>;

constexpr const char* kNone = "-";
constexpr double kQuietShown = 2;  // seconds
constexpr double kSizeMax = 1e18;

std::string size_of(double bytes) {
  return std::isnan(bytes) ? kNone
                           : size_text(static_cast<std::uint64_t>(std::clamp(bytes, 0., kSizeMax)));
}

std::string seconds_text(double seconds) {
  constexpr double kSecondsMax = 1e9;
  return format_duration(std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(std::clamp(seconds, 0., kSecondsMax))));
}

std::string percent_text(double part) {
  return std::isnan(part) ? kNone : fmt::format("{:.0f} %", 100 * part);
}

std::string doing_text(const SampleTable& table, std::size_t row) {
  const std::string_view phase = table.text("phase", row), doing = table.text("doing", row);
  const std::string_view state = table.text("state", row);
  std::string text(phase.empty() ? "runs" : phase);
  if (!doing.empty()) text += fmt::format(" ({})", doing);
  if (const double quiet = table.number("quiet_s", row); quiet >= kQuietShown)
    text += " for " + seconds_text(quiet);
  if (state == "T") text += ", stopped by a signal";
  if (state == "D") text += fmt::format(", waits in {}", table.text("waits_in", row));
  return terminal_safe(text);
}

std::string memory_text(const SampleTable& table, std::size_t row) {
  const double limit = table.number("memory_limit", row);
  const std::string used = size_of(table.number("rss", row));
  return std::isnan(limit) ? used : fmt::format("{} of {}", used, size_of(limit));
}

/// Return the GPUs of the rank: "0: 93 %, 40.0 GiB".
std::string gpu_text(const SampleTable* gpus, const std::string& rank) {
  std::int32_t number = -1;
  std::from_chars(rank.data(), rank.data() + rank.size(), number);
  std::string text;
  for (std::size_t row = 0; gpus != nullptr && row < gpus->rows.size(); ++row) {
    const auto users = RankSet::parse(gpus->text("ranks", row));
    if (!users || !users->contains(number)) continue;
    const std::string_view state = gpus->text("state", row);
    const std::string& name = gpus->rows[row];
    text += fmt::format("{}{}: ", text.empty() ? "" : "; ", name.substr(name.rfind('/') + 1));
    text += state == "ok" ? fmt::format("{}, {}", percent_text(gpus->number("use", row)),
                                        size_of(gpus->number("memory_used", row)))
                          : std::string(state);
  }
  return terminal_safe(text);
}

Cells cells_of(const SampleTable& ranks, const SampleTable* gpus, std::size_t row) {
  const double steps = ranks.number("steps", row), step_s = ranks.number("step_s", row);
  const double cpu = ranks.number("cpu", row);
  Cells cells{ranks.rows[row],
              terminal_safe(ranks.text("node", row)),
              doing_text(ranks, row),
              std::isnan(steps) ? kNone : fmt::format("{:.0f}", steps),
              std::isnan(step_s) ? kNone : seconds_text(step_s),
              std::isnan(cpu) ? kNone : fmt::format("{:.2f}", cpu),
              memory_text(ranks, row)};
  if (gpus != nullptr) cells.push_back(gpu_text(gpus, ranks.rows[row]));
  return cells;
}

/// Return the rows to show, in their order.
std::vector<std::size_t> shown_rows(const SampleTable& ranks) {
  std::vector<std::size_t> rows(ranks.rows.size());
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  if (rows.size() <= kShownRanksMax) return rows;
  const auto key = [&ranks](std::size_t row) {
    const double steps = ranks.number("steps", row), quiet = ranks.number("quiet_s", row);
    return std::tuple(std::isnan(steps) ? 0 : steps, std::isnan(quiet) ? 0 : -quiet);
  };
  std::stable_sort(rows.begin(), rows.end(),
                   [&key](std::size_t a, std::size_t b) { return key(a) < key(b); });
  rows.resize(kShownRanksMax);
  std::sort(rows.begin(), rows.end());
  return rows;
}

const SampleTable* find_table(const std::vector<SampleTable>& newest, SampleKind kind) {
  const auto found = std::find_if(newest.begin(), newest.end(),
                                  [kind](const SampleTable& table) { return table.kind == kind; });
  return found == newest.end() ? nullptr : &*found;
}

}  // namespace

std::string rank_status_text(const std::vector<SampleTable>& newest, std::int64_t age_ms) {
  const SampleTable* ranks = find_table(newest, SampleKind::Ranks);
  if (ranks == nullptr) return {};
  const SampleTable* gpus = find_table(newest, SampleKind::Gpus);
  std::vector<Cells> lines{{"rank", "node", "doing", "steps", "step time", "CPU", "memory"}};
  if (gpus != nullptr) lines[0].push_back("GPU");
  for (const std::size_t row : shown_rows(*ranks)) lines.push_back(cells_of(*ranks, gpus, row));
  std::vector<int> widths(lines[0].size());
  for (const Cells& cells : lines)
    for (std::size_t i = 0; i < cells.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(cells[i]));
  std::string text;
  if (age_ms > kFreshMs)
    text = fmt::format("ranks as they were {} ago:\n", format_duration(milliseconds(age_ms)));
  for (const Cells& cells : lines) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      line += (i == 0 ? "" : "  ") + cells[i];
      line.append(static_cast<std::size_t>(widths[i] - columns_of(cells[i])), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  if (const std::size_t all = ranks->rows.size(); all > kShownRanksMax)
    text += fmt::format("and {} ranks that are better off (--output json shows all)\n",
                        all - kShownRanksMax);
  return text;
}

}  // namespace train
