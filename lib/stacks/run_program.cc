#include "lib/stacks/run_program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lib/stacks/child_process.h"

namespace train {
namespace {

constexpr std::size_t kMemoryBytesMax = std::size_t{4} << 30;  // of its address space

/// Our end of a pipe from the program.
class Output {
 public:
  /// `keeps_all`: more than `bytes_max` is an error; else it is passed over.
  Output(std::size_t bytes_max, bool keeps_all) : bytes_max_(bytes_max), keeps_all_(keeps_all) {}

  /// Make the pipe, and return the program's end.
  Result<FileDescriptor> open() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
    end_.reset(ends[0]);
    FileDescriptor theirs(ends[1]);
    if (::fcntl(end_.get(), F_SETFL, O_NONBLOCK) != 0) return system_error(errno, "making a pipe");
    return theirs;
  }
  int descriptor() const { return end_.get(); }

  /// Read a piece. Return false if there is none now.
  bool read() {
    std::array<char, 65536> piece;
    const ssize_t size = end_.get() < 0 ? 0 : ::read(end_.get(), piece.data(), piece.size());
    if (size < 0) return errno == EINTR;
    if (size == 0) {
      end_.reset();
      return false;
    }
    const auto bytes = static_cast<std::size_t>(size);
    too_long_ = too_long_ || (keeps_all_ && bytes > bytes_max_ - text_.size());
    text_.append(piece.data(), std::min(bytes, bytes_max_ - text_.size()));
    return true;
  }
  bool too_long() const { return too_long_; }
  std::string take() && { return std::move(text_); }

 private:
  std::size_t bytes_max_;
  bool keeps_all_;
  FileDescriptor end_{};
  std::string text_{};
  bool too_long_ = false;
};

/// It may read the memory of a process that makes it believe anything.
void limit(pid_t pid) {
  const rlimit memory{kMemoryBytesMax, kMemoryBytesMax}, none{0, 0};
  ::prlimit(pid, RLIMIT_AS, &memory, nullptr);
  ::prlimit(pid, RLIMIT_CORE, &none, nullptr);
}

/// Read until the program has ended, or writes too much, or the deadline has passed.
void read_all(const ChildProcess& child, Output& text, Output& errors, TimePoint deadline) {
  for (bool ended = false; !ended;) {
    std::array<pollfd, 3> ready{{{child.handle(), POLLIN, 0},
                                 {text.descriptor(), POLLIN, 0},
                                 {errors.descriptor(), POLLIN, 0}}};
    const int count = ::poll(ready.data(), ready.size(), milliseconds_until(deadline));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    ended = ready[0].revents != 0;
    // What it has started may still hold the pipes, and write for ever: read what is there.
    for (int pieces = 0; pieces < 16 && errors.read(); ++pieces) {
    }
    while (text.read()) {
      if (text.too_long() || std::chrono::steady_clock::now() > deadline) return;
    }
  }
}

}  // namespace

Result<ProgramOutput> run_program(const ProgramOrder& order, TimePoint deadline) {
  Output text(order.bytes_max, true), errors(kProgramErrorsBytesMax, false);
  TRY(FileDescriptor text_end, text.open());
  TRY(FileDescriptor errors_end, errors.open());
  const ChildFiles files{.output = order.to_third ? -1 : text_end.get(),
                         .errors = errors_end.get(),
                         .third = order.to_third ? text_end.get() : -1};
  TRY(ChildProcess child, ChildProcess::start(order.words, files, true));
  text_end.reset();
  errors_end.reset();
  limit(child.pid());
  read_all(child, text, errors, deadline);
  ProgramOutput output;
  output.trouble = child.wait_or_kill(text.too_long() ? TimePoint{} : deadline);
  if (text.too_long())
    output.trouble = fmt::format("wrote more than {} KiB and was killed", order.bytes_max >> 10);
  output.text = std::move(text).take();
  output.errors = std::move(errors).take();
  return output;
}

}  // namespace train
