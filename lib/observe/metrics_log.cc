#include "lib/observe/metrics_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/parse.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "lib/base/report_line.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr std::size_t kReadChunkBytes = 4u << 20;
// A report has at most 64 KiB, so a file with a longer line is no report log.
constexpr std::size_t kLineBytesMax = 64u << 20;

std::uint64_t key_of(std::uint32_t attempt, std::int32_t rank) {
  return std::uint64_t{attempt} << 32 | static_cast<std::uint32_t>(rank);
}

bool skip(std::string_view& text, std::string_view expected) {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}

template <class T>
bool read_number(std::string_view& text, T& value) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

/// Call `each(line)` for every complete line, without its newline, until it returns false. Return
/// the number of bytes in the lines for which it returned true.
Result<std::uint64_t> for_each_line(const std::string& path,
                                    const std::function<bool(std::string_view)>& each) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return std::uint64_t{0};
  if (fd < 0) return system_error(errno, "opening " + path);
  std::string pending;
  std::uint64_t taken = 0;
  for (;;) {
    const std::size_t old_size = pending.size();
    pending.resize(old_size + kReadChunkBytes);
    const ssize_t count = ::read(fd, pending.data() + old_size, kReadChunkBytes);
    const int failed = count < 0 ? errno : 0;
    pending.resize(old_size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    if (failed == EINTR) continue;
    if (count <= 0) {
      ::close(fd);
      if (failed != 0) return system_error(failed, "reading " + path);
      return taken;
    }
    std::size_t begin = 0;
    for (auto end = pending.find('\n'); end != std::string::npos; end = pending.find('\n', begin)) {
      if (!each(std::string_view(pending).substr(begin, end - begin))) {
        ::close(fd);
        return taken;
      }
      taken += end + 1 - begin;
      begin = end + 1;
    }
    pending.erase(0, begin);
    if (pending.size() > kLineBytesMax) {
      ::close(fd);
      return Error{Errc::Corrupt,
                   fmt::format("{} has a line of more than {} MiB", path, kLineBytesMax >> 20)};
    }
  }
}

MetricValue metric_of(const boost::json::value& value) {
  if (const auto* integer = value.if_int64()) return *integer;
  if (const auto* number = value.if_double()) return *number;
  if (const auto* flag = value.if_bool()) return *flag;
  if (const auto* text = value.if_string()) return std::string(*text);
  return std::numeric_limits<double>::quiet_NaN();
}

std::int64_t micros_of(const std::string& time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(parse_utc(time).time_since_epoch())
      .count();
}

}  // namespace

// Reads the exact form that append_line writes.
std::optional<HeldReports> parse_report_front(std::string_view line) {
  HeldReports front;
  const bool ours = skip(line, R"({"rank":)") && read_number(line, front.rank) &&
                    skip(line, R"(,"attempt":)") && read_number(line, front.attempt) &&
                    skip(line, R"(,"report_seq":)") && read_number(line, front.last_report_seq) &&
                    skip(line, R"(,"time":")") && line.ends_with('}');
  if (!ours) return std::nullopt;
  return front;
}

std::optional<ReportRecord> parse_report_line(std::string_view line) {
  const auto front = parse_report_front(line);
  if (!front) return std::nullopt;
  boost::json::error_code failed;
  std::array<unsigned char, 4096> buffer;  // most reports fit; there may be millions
  boost::json::monotonic_resource memory(buffer.data(), buffer.size());
  const boost::json::value parsed = boost::json::parse({line.data(), line.size()}, failed, &memory);
  if (failed || !parsed.is_object()) return std::nullopt;
  const auto& fields = parsed.get_object();
  const auto* time = fields.if_contains("time");
  const auto* checkpoint = fields.if_contains("checkpoint");
  const auto* metrics = fields.if_contains("metrics");
  if (!time || !time->is_string() || !checkpoint || !checkpoint->is_bool() || !metrics ||
      !metrics->is_object()) {
    return std::nullopt;
  }
  ReportRecord report{.rank = front->rank,
                      .attempt = front->attempt,
                      .report_seq = front->last_report_seq,
                      .wall_us = micros_of(std::string(time->get_string())),
                      .has_checkpoint = checkpoint->get_bool(),
                      .metrics = {}};
  for (const auto& member : metrics->get_object())
    report.metrics.emplace_back(member.key(), metric_of(member.value()));
  return report;
}

Result<MetricsLog> MetricsLog::open(std::string path) {
  MetricsLog log;
  TRY(log.file_, AppendFile::open(std::move(path)));
  TRY_VOID(log.recover());
  return log;
}

Result<Unit> MetricsLog::recover() {
  std::uint64_t line_number = 0;
  bool foreign = false;
  TRY(const std::uint64_t whole, for_each_line(file_.path(), [&](std::string_view line) {
        ++line_number;
        const auto front = parse_report_front(line);
        if (!front) {
          foreign = std::memchr(line.data(), 0, line.size()) == nullptr;
          return false;
        }
        auto& last = last_[key_of(front->attempt, front->rank)];
        last = std::max(last, front->last_report_seq);
        return true;
      }));
  if (foreign) {
    return Error{Errc::Corrupt,
                 fmt::format("{}:{} is not a line of the report log", file_.path(), line_number),
                 "fix or remove that line; the run continues after the last report in the file"};
  }
  const off_t size = [&] {
    struct stat info {};
    return ::stat(file_.path().c_str(), &info) == 0 ? info.st_size : off_t{0};
  }();
  torn_bytes_ = static_cast<std::uint64_t>(size) - whole;
  if (torn_bytes_ == 0) return Unit{};
  return file_.truncate(whole);
}

Result<Unit> MetricsLog::on_reports(std::span<const ReportRecord> reports) {
  if (file_.buffer().size() >= kBufferBytesMax) TRY_VOID(file_.flush());
  for (const ReportRecord& report : reports) {
    auto& last = last_[key_of(report.attempt, report.rank)];
    if (report.report_seq <= last) continue;
    last = report.report_seq;
    append_report_line(file_.buffer(), report, time_text(report.wall_us));
  }
  return Unit{};
}

// Return the time as text. Formatting a date costs more than the rest of the line, so we keep the
// text of the whole second.
std::string_view MetricsLog::time_text(std::int64_t wall_us) {
  constexpr std::int64_t kMicros = 1'000'000;
  const std::int64_t second = wall_us >= 0 ? wall_us / kMicros : (wall_us - kMicros + 1) / kMicros;
  if (second != second_ || time_text_.empty()) {
    second_ = second;
    time_text_ = format_utc(std::chrono::system_clock::time_point(seconds(second)));
  }
  auto micros = static_cast<std::uint32_t>(wall_us - second * kMicros);
  auto digit = time_text_.rbegin() + 1;  // before "Z"
  for (int i = 0; i < 6; ++i, micros /= 10) *digit++ = static_cast<char>('0' + micros % 10);
  return time_text_;
}

std::uint64_t MetricsLog::last_report_seq(std::uint32_t attempt, std::int32_t rank) const {
  const auto found = last_.find(key_of(attempt, rank));
  return found == last_.end() ? 0 : found->second;
}

std::vector<HeldReports> MetricsLog::held() const {
  std::vector<HeldReports> all;
  all.reserve(last_.size());
  for (const auto& [key, report_seq] : last_) {
    all.push_back({static_cast<std::uint32_t>(key >> 32),
                   static_cast<std::int32_t>(key & 0xFFFFFFFF), report_seq});
  }
  std::sort(all.begin(), all.end(), [](const HeldReports& a, const HeldReports& b) {
    return std::pair(a.attempt, a.rank) < std::pair(b.attempt, b.rank);
  });
  return all;
}

Result<Unit> read_metrics_log(const std::string& path,
                              const std::function<bool(ReportRecord&&)>& each) {
  std::uint64_t line_number = 0;
  bool readable = true;
  TRY_VOID(for_each_line(path, [&](std::string_view line) {
    ++line_number;
    auto report = parse_report_line(line);
    readable = report.has_value();
    return readable && each(std::move(*report));
  }));
  if (!readable)
    return Error{Errc::Corrupt,
                 fmt::format("{}:{} is not a line of the report log", path, line_number)};
  return Unit{};
}

}  // namespace train
