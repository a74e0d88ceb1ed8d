#include "launcher/cluster/reports/output_times.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>

#include "lib/base/text_file.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

using WallTime = std::chrono::system_clock::time_point;
using std::chrono::microseconds;

constexpr std::uint64_t kReadBytesMax = 256u << 10;  // at once
constexpr std::uint64_t kFileBytesMax = 256u << 20;  // a reader believes no larger one
constexpr std::size_t kLineBytesMax = 128;
constexpr std::int64_t kMicrosMax = 7'289'654'400'000'000;  // 2201: the clock's end is not far

struct Line {
  StreamKey stream;
  OutputMark mark;
};

std::optional<Line> parse_mark(std::string_view text) {
  std::int64_t micros = 0;
  Line line;
  const auto number = [&text](auto& value, bool last) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (error != std::errc() || (last ? !text.empty() : !text.starts_with(' '))) return false;
    if (!last) text.remove_prefix(1);
    return true;
  };
  if (!number(micros, false) || !number(line.stream.first, false) ||
      !number(line.stream.second, false) || !number(line.mark.position, true))
    return std::nullopt;
  if (micros < 0 || micros >= kMicrosMax || line.stream.first < 0 || line.stream.second < 1 ||
      line.stream.second > 2)
    return std::nullopt;
  line.mark.at = WallTime(microseconds(micros));
  return line;
}

}  // namespace

Result<std::uint64_t> OutputTimes::note(StreamKey stream, std::uint64_t position, WallTime now) {
  if (const auto last = marked_.find(stream);
      last != marked_.end() && now >= last->second && now - last->second < kMarkEvery)
    return std::uint64_t{0};
  if (file_.get() < 0) TRY_VOID(open());
  const std::string line = fmt::format(
      "{} {} {} {}\n", std::chrono::duration_cast<microseconds>(now.time_since_epoch()).count(),
      stream.first, stream.second, position);
  if (bytes_ + line.size() > bytes_max_) TRY_VOID(thin_out());
  TRY_VOID(write_all(file_.get(), line, path_));
  bytes_ += line.size();
  marked_[stream] = now;
  return line.size();
}

Result<Unit> OutputTimes::open() {
  file_.reset(::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0666));
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0)
    return system_error(errno, "opening " + path_);
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  char last = '\n';
  if (bytes_ > 0 && ::pread(file_.get(), &last, 1, static_cast<off_t>(bytes_ - 1)) != 1)
    return system_error(errno, "reading " + path_);
  if (last == '\n') return Unit{};
  ++bytes_;  // a launcher died while it wrote that line
  return write_all(file_.get(), "\n", path_);
}

Result<Unit> OutputTimes::thin_out() {
  const std::string text = read_text(path_);
  std::string thinner;
  std::map<StreamKey, std::uint64_t> seen;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size() - 1) + 1;
    const auto line = parse_mark(rest.substr(0, end - 1));
    if (line && seen[line->stream]++ % 2 == 0) thinner += rest.substr(0, end);
    rest.remove_prefix(end);
  }
  const std::string anew = path_ + ".new";
  ::unlink(anew.c_str());  // left by a launcher that died
  FileDescriptor file(::open(anew.c_str(), O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666));
  if (file.get() < 0) return system_error(errno, "opening " + anew);
  if (auto written = write_all(file.get(), thinner, anew); written.has_error()) {
    ::unlink(anew.c_str());
    return written;
  }
  if (::rename(anew.c_str(), path_.c_str()) != 0) return system_error(errno, "renaming " + anew);
  file_ = std::move(file);
  bytes_ = thinner.size();
  // So many streams that the first marks alone fill it: let it grow, or each mark would cost this.
  if (bytes_ > bytes_max_ / 4 * 3) bytes_max_ = 2 * bytes_;
  return Unit{};
}

void OutputTimesReader::update() {
  update(FileDescriptor(::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)));
}

void OutputTimesReader::update(const FileDescriptor& file) {
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (status.st_ino != inode_ || static_cast<std::uint64_t>(status.st_size) < offset_) {
    inode_ = status.st_ino;
    offset_ = count_ = 0;
    ++version_;
    partial_.clear();
    marks_.clear();
  }
  std::string piece(kReadBytesMax, '\0');
  while (offset_ < kFileBytesMax) {
    const ssize_t got =
        ::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(offset_));
    if (got <= 0) return;
    offset_ += static_cast<std::uint64_t>(got);
    std::string_view rest(piece.data(), static_cast<std::size_t>(got));
    for (std::size_t end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
      partial_ += rest.substr(0, end);
      take(partial_);
      partial_.clear();
      rest.remove_prefix(end + 1);
    }
    if (partial_.size() < kLineBytesMax) partial_ += rest.substr(0, kLineBytesMax);
  }
}

void OutputTimesReader::take(std::string_view text) {
  auto line = parse_mark(text);
  if (!line) return;
  line->mark.order = count_++;
  std::vector<OutputMark>& marks = marks_[line->stream];
  // A launcher may have died after a mark, before its output: the next one's mark counts.
  while (!marks.empty() && marks.back().position >= line->mark.position) marks.pop_back();
  marks.push_back(line->mark);
}

const OutputMark* OutputTimesReader::first(StreamKey stream) const {
  const auto found = marks_.find(stream);
  return found == marks_.end() || found->second.empty() ? nullptr : &found->second.front();
}

const OutputMark* OutputTimesReader::find(StreamKey stream, std::uint64_t position) const {
  const auto found = marks_.find(stream);
  if (found == marks_.end()) return nullptr;
  const std::vector<OutputMark>& marks = found->second;
  const auto after =
      std::upper_bound(marks.begin(), marks.end(), position,
                       [](std::uint64_t at, const OutputMark& mark) { return at < mark.position; });
  return after == marks.begin() ? nullptr : &*(after - 1);
}

}  // namespace train
