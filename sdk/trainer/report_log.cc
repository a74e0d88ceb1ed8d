#include "sdk/trainer/report_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

namespace train::trainer {
namespace {

constexpr std::size_t kReadBytes = 1u << 20;
constexpr std::size_t kReportBytesMax = 64u << 20;

}  // namespace

ReportLog::~ReportLog() {
  if (fd_ >= 0) ::close(fd_);
}

void ReportLog::begin(std::string folder, std::uint64_t logged) {
  folder_ = std::move(folder);
  read_to_ = logged;
}

void ReportLog::logged(std::uint64_t bytes) { logged_ = std::max(logged_, bytes); }

void ReportLog::attempt_began(int attempt, int world_size, const std::string& resumes_from,
                              bool found_running) {
  newest_attempt_ = attempt;
  if (found_running) read_to_ = 0;
  rounds_.attempt_began(attempt, world_size, resumes_from);
}

std::optional<Round> ReportLog::next() {
  if (auto places = rounds_.next()) return read(*places);
  if (read_to_ >= logged_) return std::nullopt;
  read_lines();
  auto places = rounds_.next();
  return places ? std::optional(read(*places)) : std::nullopt;
}

/// Take in the lines that are on disk, up to those of an attempt that train-run has not told of
/// yet.
void ReportLog::read_lines() {
  if (fd_ < 0) {
    const std::string path = folder_ + "/metrics.jsonl";
    fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd_ < 0) throw Failure("io", fmt::format("opening {}: {}", path, std::strerror(errno)));
  }
  std::string buffer(std::min<std::uint64_t>(kReadBytes, logged_ - read_to_), '\0');
  for (;;) {
    const ssize_t count = ::pread(fd_, buffer.data(), buffer.size(), static_cast<off_t>(read_to_));
    if (count <= 0)
      throw Failure("io", fmt::format("reading {}/metrics.jsonl: {}", folder_,
                                      count < 0 ? std::strerror(errno) : "it has become shorter"));
    const std::string_view text(buffer.data(), static_cast<std::size_t>(count));
    std::size_t begin = 0;
    for (std::size_t end = text.find('\n'); end != std::string_view::npos;
         end = text.find('\n', begin)) {
      const std::string_view line = text.substr(begin, end - begin);
      const auto front = read_front(line);
      if (front && front->attempt > newest_attempt_) {
        read_to_ += begin;
        return;
      }
      if (front) rounds_.add(*front, {read_to_ + begin, static_cast<std::uint32_t>(line.size())});
      begin = end + 1;
    }
    read_to_ += begin;
    if (begin > 0) return;
    if (buffer.size() >= kReportBytesMax || buffer.size() >= logged_ - read_to_)
      throw Failure("corrupt", fmt::format("{}/metrics.jsonl: the line at byte {} has no end",
                                           folder_, read_to_));
    buffer.resize(std::min<std::uint64_t>(buffer.size() * 2, logged_ - read_to_));
  }
}

Dict ReportLog::read_report(const LinePlace& place, bool& has_checkpoint) const {
  std::string line(place.bytes, '\0');
  const ssize_t count = ::pread(fd_, line.data(), line.size(), static_cast<off_t>(place.offset));
  if (count != static_cast<ssize_t>(line.size()))
    throw Failure("io",
                  fmt::format("reading {}/metrics.jsonl at byte {}: {}", folder_, place.offset,
                              count < 0 ? std::strerror(errno) : "it has become shorter"));
  const Dict report = parse_json(line).as<Dict>();
  has_checkpoint = report.at("checkpoint").as<bool>();
  return report.at("metrics").as<Dict>();
}

Round ReportLog::read(const RoundPlaces& places) const {
  Round round{.attempt = places.attempt,
              .number = places.number,
              .ordinal = places.ordinal,
              .redone = places.redone,
              .reports = {}};
  for (const LinePlace& line : places.lines) {
    bool has_checkpoint = false;
    round.reports.push_back(read_report(line, has_checkpoint));
    if (round.reports.size() == 1) round.has_checkpoint = has_checkpoint;
  }
  return round;
}

}  // namespace train::trainer
