#include "daemon/supervisor/output/output_spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace train {

Result<OutputSpool> OutputSpool::create(std::string path, std::uint64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error(errno, "creating the output spool " + path);
  return OutputSpool(fd, std::move(path), std::max<std::uint64_t>(bytes_max, 1));
}

OutputSpool::OutputSpool(OutputSpool&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      path_(std::move(other.path_)),
      bytes_max_(other.bytes_max_),
      kept_(other.kept_),
      lost_(other.lost_),
      why_(other.why_),
      last_note_(std::move(other.last_note_)) {}

OutputSpool::~OutputSpool() {
  if (fd_ >= 0) ::close(fd_);
}

void OutputSpool::append(std::string_view data) {
  if (lost_ > 0) {
    if (!keep(loss_note())) {
      lost_ += data.size();
      return;
    }
    lost_ = 0;
  }
  if (!keep(data)) lost_ += data.size();
}

void OutputSpool::finish() {
  if (lost_ > 0) last_note_ = loss_note();
}

// Keep all of the data, or none: a part that was written does not count.
bool OutputSpool::keep(std::string_view data) {
  std::uint64_t end = kept_;
  while (!data.empty()) {
    const std::uint64_t at = end % bytes_max_;
    const auto piece = data.substr(0, std::min<std::uint64_t>(data.size(), bytes_max_ - at));
    const ssize_t written = ::pwrite(fd_, piece.data(), piece.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      why_ = written < 0 ? errno : EIO;
      return false;
    }
    end += static_cast<std::uint64_t>(written);
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  kept_ = end;
  return true;
}

std::string OutputSpool::loss_note() const {
  return fmt::format("\n[trainrun: {} bytes of output are lost: {}: {}]\n", lost_, path_,
                     std::strerror(why_));
}

std::string OutputSpool::read(std::uint64_t& offset, std::size_t size) const {
  if (kept_ > bytes_max_ && offset < kept_ - bytes_max_) offset = kept_ - bytes_max_;
  if (offset >= kept_)
    return last_note_.substr(std::min<std::uint64_t>(offset - kept_, last_note_.size()), size);
  const std::uint64_t at = offset % bytes_max_;
  std::string data(std::min<std::uint64_t>({size, kept_ - offset, bytes_max_ - at}), '\0');
  const ssize_t got = ::pread(fd_, data.data(), data.size(), static_cast<off_t>(at));
  // Put question marks where data cannot be read, so that the stream continues after it.
  std::fill(data.begin() + std::max<ssize_t>(got, 0), data.end(), '?');
  return data;
}

void LastLines::append(std::size_t stream, std::string_view data) {
  std::string& open = open_.at(stream);
  while (!data.empty()) {
    const auto newline = data.find('\n');
    const auto piece = data.substr(0, newline);
    if (open.size() < kLineBytesMax) open.append(piece.substr(0, kLineBytesMax - open.size()));
    if (newline == std::string_view::npos) return;
    lines_.push_back(std::exchange(open, {}));
    if (lines_.size() > kLinesMax) lines_.pop_front();
    data.remove_prefix(newline + 1);
  }
}

std::vector<std::string> LastLines::lines() const {
  std::deque<std::string> all = lines_;
  for (const std::string& open : open_) {
    if (!open.empty()) all.push_back(open);
  }
  while (all.size() > kLinesMax) all.pop_front();
  return {all.begin(), all.end()};
}

}  // namespace train
