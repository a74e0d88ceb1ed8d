#include "daemon/supervisor/output_spool.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace train {

Result<OutputSpool> OutputSpool::create(std::string path, std::uint64_t bytes_max) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error(errno, "creating the output spool " + path);
  return OutputSpool(fd, std::move(path), bytes_max);
}

OutputSpool::OutputSpool(OutputSpool&& other) noexcept
    : fd_(other.fd_),
      path_(std::move(other.path_)),
      bytes_max_(other.bytes_max_),
      total_(other.total_) {
  other.fd_ = -1;
}

OutputSpool::~OutputSpool() {
  if (fd_ >= 0) ::close(fd_);
}

// A full disk loses output, never a worker: what cannot be written reads as zeros that the reader
// skips.
void OutputSpool::append(std::string_view data) {
  while (!data.empty()) {
    const std::uint64_t at = total_ % bytes_max_;
    const auto piece = data.substr(0, std::min<std::uint64_t>(data.size(), bytes_max_ - at));
    const ssize_t written = ::pwrite(fd_, piece.data(), piece.size(), static_cast<off_t>(at));
    const std::size_t advance = written > 0 ? static_cast<std::size_t>(written) : piece.size();
    total_ += advance;
    data.remove_prefix(advance);
  }
}

std::string OutputSpool::read(std::uint64_t& offset, std::size_t size) const {
  if (total_ > bytes_max_ && offset < total_ - bytes_max_) offset = total_ - bytes_max_;
  if (offset >= total_) return {};
  const std::uint64_t at = offset % bytes_max_;
  std::string data(std::min<std::uint64_t>({size, total_ - offset, bytes_max_ - at}), '\0');
  const ssize_t got = ::pread(fd_, data.data(), data.size(), static_cast<off_t>(at));
  data.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return data;
}

void LastLines::append(std::string_view data) {
  while (!data.empty()) {
    const auto newline = data.find('\n');
    const auto piece = data.substr(0, newline);
    if (open_.size() < kLineBytesMax) open_.append(piece.substr(0, kLineBytesMax - open_.size()));
    if (newline == std::string_view::npos) return;
    lines_.push_back(std::move(open_));
    open_.clear();
    if (lines_.size() > kLinesMax) lines_.pop_front();
    data.remove_prefix(newline + 1);
  }
}

std::vector<std::string> LastLines::lines() const {
  std::vector<std::string> all(lines_.begin(), lines_.end());
  if (!open_.empty()) all.push_back(open_);
  if (all.size() > kLinesMax) all.erase(all.begin());
  return all;
}

}  // namespace train
