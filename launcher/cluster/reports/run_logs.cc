#include "launcher/cluster/reports/run_logs.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <queue>
#include <tuple>
#include <utility>

namespace train {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kReadBytesMin = 4u << 10, kReadBytesMax = 256u << 10;
constexpr std::uint64_t kHeldBytes = 64u << 20;  // of all streams, about

std::optional<std::uint32_t> number_of(const fs::path& path) {
  const std::string name = path.filename();
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool whole = error == std::errc() && end == name.data() + name.size();
  return whole && number <= 0x7fffffff ? std::optional(number) : std::nullopt;
}

/// Return the numbers that are names in the folder, sorted.
std::vector<std::uint32_t> numbers_in(const std::string& folder) {
  std::vector<std::uint32_t> numbers;
  std::error_code ec;
  for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
    if (const auto number = number_of(at->path())) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace

void RunLogs::find() {
  if (selection_.attempt) {
    newest_ = selection_.attempt;
    return find(*newest_);
  }
  // A stream may appear at the end of its attempt, and the next attempt may begin before we look.
  const std::vector<std::uint32_t> attempts = numbers_in(folder_.path() + "/attempts");
  if (attempts.empty()) return;
  const std::uint32_t from = newest_.value_or(attempts.back());
  for (const std::uint32_t attempt : attempts)
    if (attempt >= from) find(attempt);
  newest_ = std::max(from, attempts.back());
}

void RunLogs::find(std::uint32_t attempt) {
  const Attempt id{attempt};
  times_.try_emplace(attempt, Times{OutputTimesReader(folder_.output_times(id))});
  bool any = false;
  for (const std::uint32_t number : numbers_in(folder_.attempt(id) + "/ranks")) {
    const auto rank = static_cast<std::int32_t>(number);
    if (selection_.ranks && !selection_.ranks->contains(rank)) continue;
    for (const int stream : {1, 2}) {
      if (selection_.stream != 0 && selection_.stream != stream) continue;
      const std::string path =
          stream == 1 ? folder_.stdout_log(id, Rank{rank}) : folder_.stderr_log(id, Rank{rank});
      std::error_code ec;
      if (known_.contains({attempt, {rank, stream}}) || !fs::exists(path, ec)) continue;
      known_.insert({attempt, {rank, stream}});
      sources_.push_back({attempt, {rank, stream}, LogFollower(path)});
      any = true;
    }
  }
  if (!any) return;
  std::stable_sort(sources_.begin(), sources_.end(), [](const Source& a, const Source& b) {
    return std::tie(a.attempt, a.key) < std::tie(b.attempt, b.key);
  });
}

void RunLogs::skip_to_end() {
  for (Source& source : sources_) source.log.skip_to_end();
}

std::vector<std::int32_t> RunLogs::ranks() const {
  std::set<std::int32_t> ranks;
  for (const Source& source : sources_) ranks.insert(source.key.first);
  return {ranks.begin(), ranks.end()};
}

/// Decide up to where to read, and read the times of all that: the launcher writes each time before
/// its output.
void RunLogs::look() {
  for (Source& source : sources_) source.until = source.log.end();
  for (auto& [attempt, times] : times_) times.reader.update();
}

/// Read until the source has a line. Return false if it has none yet.
bool RunLogs::fill(Source& source, bool to_the_end) {
  const std::uint64_t bytes =
      std::clamp(kHeldBytes / sources_.size(), kReadBytesMin, kReadBytesMax);
  const LogText& read = source.read;
  while (source.ready.empty()) {
    if (source.fed == read.text.size()) {
      source.read = source.log.read(bytes, source.until);
      source.fed = 0;
    }
    const bool end = read.text.empty();
    if (end && !to_the_end) return false;
    // Line by line: short lines, held as such, would take many times the bytes of the file.
    const std::size_t newline = std::min(read.text.find('\n', source.fed), read.text.size() - 1);
    const std::size_t piece = end ? 0 : newline + 1 - source.fed;
    const std::uint64_t begin =
        end ? source.log.position() : read.begin + (read.is_output ? source.fed : 0);
    source.lines.feed(
        std::string_view(read.text).substr(source.fed, piece), end,
        [&](std::string_view line, std::size_t taken) {
          const std::uint64_t after = begin + (read.is_output ? taken : 0);
          source.ready.push_back({std::string(line), std::max<std::uint64_t>(after, 1) - 1});
        });
    source.fed += piece;
    if (end) return !source.ready.empty();
  }
  return true;
}

void RunLogs::give(Source& source, const Sink& sink) {
  Line line = std::move(source.ready.front());
  source.ready.pop_front();
  const OutputTimesReader& times = times_.at(source.attempt).reader;
  const OutputMark* mark = times.find(source.key, line.last_byte);
  // An earlier version of train-run has written the beginning: it is older than the first mark.
  if (mark == nullptr) mark = times.first(source.key);
  if (mark == nullptr && told_untimed_.insert(source.attempt).second)
    untimed_.insert(source.attempt);
  sink({source.attempt, source.key.first, std::move(line.text),
        mark != nullptr ? std::optional(mark->at) : std::nullopt});
}

bool RunLogs::read(bool to_the_end, const Sink& sink, const std::function<void()>& drained) {
  look();
  bool any = false;
  for (Source& source : sources_) {
    while (fill(source, to_the_end)) {
      any = true;
      give(source, sink);
    }
    drained();
  }
  return any;
}

std::optional<RunLogs::Next> RunLogs::next_of(std::size_t index, bool to_the_end) {
  Source& source = sources_[index];
  if (!fill(source, to_the_end)) return std::nullopt;
  const OutputMark* mark =
      times_.at(source.attempt).reader.find(source.key, source.ready.front().last_byte);
  return Next{source.attempt, mark != nullptr ? mark->order + 1 : 0, index};
}

bool RunLogs::merge(bool to_the_end, const Sink& sink) {
  look();
  std::priority_queue<Next, std::vector<Next>, std::greater<>> queue;
  for (std::size_t index = 0; index < sources_.size(); ++index)
    if (const auto next = next_of(index, to_the_end)) queue.push(*next);
  bool any = false;
  while (!queue.empty()) {
    const Next next = queue.top();
    const Times& times = times_.at(next.attempt);
    const std::uint64_t complete = times.version == times.reader.version() ? times.complete : 0;
    if (!to_the_end && next.order > complete) break;
    queue.pop();
    any = true;
    give(sources_[next.source], sink);
    if (const auto after = next_of(next.source, to_the_end)) queue.push(*after);
  }
  for (auto& [attempt, times] : times_) {
    times.complete = times.reader.count();
    times.version = times.reader.version();
  }
  return any;
}

}  // namespace train
