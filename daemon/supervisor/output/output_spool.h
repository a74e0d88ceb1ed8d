// Keeps a worker's output on its node until the launcher has it, in a file used as a ring of fixed
// size. Also keeps the last lines, for the cause of death. If a launcher stays away longer than the
// ring lasts, it loses the middle, and is told how much. A full disk loses output, never a worker:
// the stream itself says how much of it could not be kept, and why.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

class OutputSpool {
 public:
  static Result<OutputSpool> create(std::string path, std::uint64_t bytes_max);
  OutputSpool(OutputSpool&& other) noexcept;
  OutputSpool& operator=(OutputSpool&&) = delete;
  ~OutputSpool();

  void append(std::string_view data);
  /// End the stream: nothing more will be added, except a note about what was lost at its end.
  void finish();
  /// Return up to `size` bytes of the stream from `offset` on. Move `offset` forward if the ring no
  /// longer has those bytes. Not empty before total().
  std::string read(std::uint64_t& offset, std::size_t size) const;
  std::uint64_t total() const { return kept_ + last_note_.size(); }

 private:
  bool keep(std::string_view data);
  std::string loss_note() const;

  OutputSpool(int fd, std::string path, std::uint64_t bytes_max)
      : fd_(fd), path_(std::move(path)), bytes_max_(bytes_max) {}
  int fd_ = -1;
  std::string path_;
  std::uint64_t bytes_max_ = 0;
  std::uint64_t kept_ = 0;  // bytes of the stream that the file has, or had
  std::uint64_t lost_ = 0;  // bytes since then that the disk did not take
  int why_ = 0;             // errno
  std::string last_note_;   // comes after what the file has
};

/// The last lines of both streams in the order in which they were completed, each cut to a maximum
/// length, for the summary of a death.
class LastLines {
 public:
  static constexpr std::size_t kLinesMax = 20;
  static constexpr std::size_t kLineBytesMax = 500;
  /// `stream`: the index of the stream, 0 or 1.
  void append(std::size_t stream, std::string_view data);
  std::vector<std::string> lines() const;

 private:
  std::deque<std::string> lines_;
  std::array<std::string, 2> open_;  // by stream: the line whose newline is still to come
};

}  // namespace train
