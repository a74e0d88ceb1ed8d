#include "lib/stacks/unwinder_process.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lib/stacks/stacks_codec.h"

namespace train {
namespace {

constexpr std::size_t kOutputBytesMax = 4 * kStackMessageBytesMax;

std::string read_whole(const FileDescriptor& file) {
  std::string text;
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  text.resize(
      std::min<std::size_t>(static_cast<std::size_t>(std::max<off_t>(size, 0)), kOutputBytesMax));
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t part =
        ::pread(file.get(), text.data() + filled, text.size() - filled, static_cast<off_t>(filled));
    if (part < 0 && errno == EINTR) continue;
    if (part <= 0) break;
    filled += static_cast<std::size_t>(part);
  }
  text.resize(filled);
  return text;
}

}  // namespace

Result<FileDescriptor> memory_file(const char* name) {
  FileDescriptor file(::memfd_create(name, MFD_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "making a file in memory");
  return file;
}

Result<Unit> append_to(const FileDescriptor& file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(file.get(), bytes.data(), bytes.size());
    if (size < 0 && errno != EINTR) return system_error(errno, "writing to a file in memory");
    bytes.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  }
  return Unit{};
}

Result<UnwinderOutput> run_unwinder(const std::string& program, const FileDescriptor& captures,
                                    TimePoint deadline) {
  TRY(const FileDescriptor output, memory_file("stacks"));
  if (::lseek(captures.get(), 0, SEEK_SET) < 0) return system_error(errno, "reading captures");
  TRY(ChildProcess child,
      ChildProcess::start({program}, {.input = captures.get(), .output = output.get()}));
  std::string trouble = child.wait_or_kill(deadline);
  return UnwinderOutput{.messages = read_whole(output), .trouble = std::move(trouble)};
}

Result<UnwinderStream> UnwinderStream::start(const std::string& program, const char* argument) {
  TRY(FileDescriptor output, memory_file("profile"));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return system_error(errno, "making a socket pair");
  FileDescriptor ours(ends[0]);
  const FileDescriptor theirs(ends[1]);
  TRY(ChildProcess child,
      ChildProcess::start({program, argument}, {.input = theirs.get(), .output = output.get()}));
  return UnwinderStream(std::move(child), std::move(ours), std::move(output));
}

Result<Unit> UnwinderStream::write(std::string_view bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    const ssize_t size =
        ::send(input_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (size >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(size));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return system_error(errno, "writing to the unwinder");
    pollfd writable{input_.get(), POLLOUT, 0};
    if (::poll(&writable, 1, milliseconds_until(deadline)) == 0)
      return Error{Errc::Timeout, "the unwinder does not keep up"};
  }
  return Unit{};
}

UnwinderOutput UnwinderStream::finish(TimePoint deadline) {
  input_.reset();
  std::string trouble = child_.wait_or_kill(deadline);
  return {.messages = read_whole(output_), .trouble = std::move(trouble)};
}

}  // namespace train
