// The routes about what workers and the launcher printed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <tuple>

#include "launcher/cluster/reports/log_follower.h"
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/log_cursor.h"
#include "launcher/dashboard/run_routes.h"
#include "launcher/report/line_filter.h"
#include "launcher/report/output_lines.h"
#include "launcher/report/rank_set.h"
#include "lib/base/terminal_text.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr std::uint64_t kReadBytes = 8u << 20;  // of all streams together, in one answer
constexpr std::uint64_t kStreamBytesMin = 64u << 10, kStreamBytesMax = 1u << 20;

struct Line {
  std::uint64_t order = 0;  // of its arrival; 0: not known
  std::size_t stream = 0;
  std::uint64_t last_byte = 0;
  StreamKey key = {};
  std::string text = {};
};

struct LogSearch {
  std::int64_t attempt = -1;
  std::optional<RankSet> ranks = {};
  int stream = 0;  // 1: stdout, 2: stderr, 0: both
  std::optional<LineFilter> filter = {};
  std::optional<LogCursor> after = {};
  std::size_t lines = 0;
};

Result<LogSearch> parse_search(const RunRequest& request) {
  const HttpQuery& query = request.query;
  const AttemptView* newest = request.run.view().newest();
  LogSearch search;
  TRY(search.attempt,
      query.whole("attempt", newest != nullptr ? newest->attempt : 0, 0, 0x7fffffff));
  if (const std::string* ranks = query.find("rank")) {
    TRY(search.ranks, RankSet::parse(*ranks));
  }
  const std::string stream = query.text("stream");
  search.stream = stream == "out" ? 1 : stream == "err" ? 2 : 0;
  if (const std::string* grep = query.find("grep")) {
    TRY(search.filter, LineFilter::parse(*grep));
  }
  if (const std::string* after = query.find("after")) {
    TRY(search.after, parse_log_cursor(*after));
  }
  TRY(const std::int64_t lines, query.whole("lines", 500, 1, 10'000));
  search.lines = static_cast<std::size_t>(lines);
  return search;
}

std::string path_of(std::int64_t attempt, StreamKey key) {
  return fmt::format("attempts/{:03}/ranks/{:04}/{}.log", attempt, key.first,
                     key.second == 1 ? "stdout" : "stderr");
}

/// Return the streams that the search wants, and whether there are more than can be shown.
std::vector<StreamKey> streams_of(const FolderFiles& files, const LogSearch& search, bool& more) {
  std::vector<StreamKey> keys;
  for (const std::string& name : files.list(fmt::format("attempts/{:03}/ranks", search.attempt))) {
    std::int32_t rank = -1;
    (void)std::from_chars(name.data(), name.data() + name.size(), rank);
    if (rank < 0 || (search.ranks && !search.ranks->contains(rank))) continue;
    for (const int stream : {1, 2}) {
      const StreamKey key{rank, stream};
      if (search.stream != 0 && stream != search.stream) continue;
      if (!files.stamp(path_of(search.attempt, key))) continue;
      more = keys.size() == kLogStreamsMax;
      if (more) return keys;
      keys.push_back(key);
    }
  }
  return keys;
}

/// Read the lines of a stream that the search wants; return where it stopped.
std::uint64_t read_stream(RunData& run, const LogSearch& search, StreamKey key, std::size_t number,
                          std::uint64_t budget, std::vector<Line>& lines, bool& more) {
  const auto open = [&files = run.files()](const std::string& name) {
    auto file = files.open(name);
    return file ? std::move(*file) : FileDescriptor();
  };
  LogFollower log(path_of(search.attempt, key), open);
  const std::uint64_t end = log.end();
  const auto known = search.after ? search.after->find(key) : std::nullopt;
  const std::uint64_t tail = !search.after && end > budget ? end - budget : 0;
  log.skip_to(known.value_or(tail));
  bool within_a_line = tail > 0;
  std::uint64_t done = std::min(known.value_or(tail), end);
  StreamLines split;
  for (std::uint64_t read = 0; read < budget;) {
    const LogText text = log.read(budget - read, end);
    if (text.text.empty()) break;
    read += text.text.size();
    split.feed(text.text, false, [&](std::string_view line, std::size_t taken) {
      done = text.begin + (text.is_output ? taken : 0);
      if (std::exchange(within_a_line, false)) return;
      if (search.filter && !search.filter->matches(line)) return;
      lines.push_back({.stream = number,
                       .last_byte = std::max<std::uint64_t>(done, 1) - 1,
                       .key = key,
                       .text = std::string(line)});
    });
  }
  more = more || log.position() < end;
  return done;
}

void put_line(JsonWriter& json, std::string_view t, std::optional<std::int32_t> rank,
              std::string_view stream, std::string_view text) {
  json.object().text_or_null("t", t);
  put(json, "rank", rank);
  json.member("stream", stream).member("text", text).end();
}

/// Return the newest lines of the launcher's log, or those behind the cursor.
Result<HttpResponse> launcher_log(const RunRequest& request) {
  TRY(const std::int64_t lines, request.query.whole("lines", 500, 1, 10'000));
  TRY(const std::int64_t after,
      request.query.whole("after", -1, 0, std::numeric_limits<std::int64_t>::max()));
  const auto stamp = request.run.files().stamp("train-run.log");
  const std::uint64_t size = stamp ? stamp->bytes : 0;
  const std::uint64_t tail = size > kStreamBytesMax ? size - kStreamBytesMax : 0;
  // A file that is shorter than the cursor has been replaced by a new one.
  const std::uint64_t begin = after < 0 ? tail
                              : static_cast<std::uint64_t>(after) <= size
                                  ? static_cast<std::uint64_t>(after)
                                  : 0;
  std::string text;
  if (stamp) {
    TRY(auto read, request.run.files().read("train-run.log", begin, kStreamBytesMax));
    text = std::move(read.text);
  }
  text.resize(text.rfind('\n') == text.npos ? 0 : text.rfind('\n') + 1);
  std::vector<std::string> found;
  StreamLines split;
  split.feed(text, false, [&](std::string_view line, std::size_t) { found.emplace_back(line); });
  if (after < 0 && tail > 0 && !found.empty()) found.erase(found.begin());
  const std::size_t skipped = found.size() - std::min<std::size_t>(found.size(), lines);
  JsonWriter json;
  json.object().key("attempt").null().key("lines").array();
  for (std::size_t i = skipped; i < found.size(); ++i) {
    constexpr std::size_t kTimeBytes = 27;
    const bool timed = found[i].starts_with("ts=") && found[i].size() > kTimeBytes + 3;
    put_line(json, timed ? found[i].substr(3, kTimeBytes) : "", std::nullopt, "launcher", found[i]);
  }
  json.end().member("after", std::to_string(begin + text.size()));
  json.member("more", begin + text.size() < size && !text.empty()).member("skipped", skipped).end();
  return HttpResponse{.body = std::move(json).take()};
}

}  // namespace

Result<HttpResponse> answer_logs(const RunRequest& request) {
  if (request.query.text("source") == "launcher") return launcher_log(request);
  TRY(const LogSearch search, parse_search(request));
  RunData& run = request.run;
  bool left_out = false, more = false;
  const std::vector<StreamKey> keys = streams_of(run.files(), search, left_out);
  const std::uint64_t budget = std::clamp(kReadBytes / std::max<std::size_t>(keys.size(), 1),
                                          kStreamBytesMin, kStreamBytesMax);
  LogCursor cursor;
  std::vector<Line> lines;
  for (std::size_t i = 0; i < keys.size(); ++i)
    cursor.positions[keys[i]] = read_stream(run, search, keys[i], i, budget, lines, more);
  const OutputTimesReader* times = run.times(search.attempt);
  const auto mark_of = [&](const Line& line) {
    return times != nullptr ? times->find(line.key, line.last_byte) : nullptr;
  };
  for (Line& line : lines)
    if (const OutputMark* mark = mark_of(line)) line.order = mark->order + 1;
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tie(a.order, a.stream) < std::tie(b.order, b.stream);
  });
  const std::size_t skipped = lines.size() - std::min(lines.size(), search.lines);
  JsonWriter json;
  json.object().member("attempt", search.attempt).key("lines").array();
  for (std::size_t i = skipped; i < lines.size(); ++i) {
    const OutputMark* mark = mark_of(lines[i]);
    put_line(json, mark != nullptr ? format_utc(mark->at) : "", lines[i].key.first,
             lines[i].key.second == 1 ? "out" : "err", terminal_safe(lines[i].text));
  }
  json.end().member("after", log_cursor_text(cursor)).member("more", more);
  json.member("skipped", skipped).member("streams_left_out", left_out).end();
  return HttpResponse{.body = std::move(json).take()};
}

}  // namespace train
