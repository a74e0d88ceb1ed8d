#include "tests/e2e/stuck_file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace train::e2e {
namespace {

constexpr std::size_t kRequestBytesMax = 1 << 18;
constexpr std::uint64_t kRoot = FUSE_ROOT_ID, kData = 2;
constexpr std::uint64_t kDataBytes = 1 << 20, kForever = 3600;

fuse_attr attributes(std::uint64_t node) {
  fuse_attr attr{};
  attr.ino = node;
  attr.mode = node == kRoot ? S_IFDIR | 0755 : S_IFREG | 0644;
  attr.nlink = 1;
  attr.size = node == kRoot ? 0 : kDataBytes;
  return attr;
}

void answer(int device, std::uint64_t unique, int error, const void* body = nullptr,
            std::size_t bytes = 0) {
  fuse_out_header header{};
  header.len = static_cast<std::uint32_t>(sizeof header + bytes);
  header.error = -error;
  header.unique = unique;
  const std::array<iovec, 2> parts{iovec{&header, sizeof header},
                                   iovec{const_cast<void*>(body), bytes}};
  (void)!::writev(device, parts.data(), bytes == 0 ? 1 : 2);
}

template <class Body>
void answer_with(int device, std::uint64_t unique, const Body& body) {
  answer(device, unique, 0, &body, sizeof body);
}

void handle(int device, const fuse_in_header& request, const char* body) {
  switch (request.opcode) {
    case FUSE_INIT: {
      fuse_init_out init{};
      init.major = FUSE_KERNEL_VERSION;
      init.minor = 31;  // of the structures below
      init.max_write = 1 << 16;
      init.max_background = 16;
      return answer_with(device, request.unique, init);
    }
    case FUSE_LOOKUP: {
      if (std::strcmp(body, "data") != 0) return answer(device, request.unique, ENOENT);
      fuse_entry_out entry{};
      entry.nodeid = kData;
      entry.entry_valid = entry.attr_valid = kForever;
      entry.attr = attributes(kData);
      return answer_with(device, request.unique, entry);
    }
    case FUSE_GETATTR: {
      fuse_attr_out out{};
      out.attr_valid = kForever;
      out.attr = attributes(request.nodeid);
      return answer_with(device, request.unique, out);
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
      fuse_open_out out{};
      out.open_flags = FOPEN_DIRECT_IO;  // each read() is one request
      return answer_with(device, request.unique, out);
    }
    case FUSE_READ:  // taken, and never answered
    case FUSE_WRITE:
    case FUSE_INTERRUPT:  // nor does it let go of a request
    case FUSE_FORGET:     // these have no answer
    case FUSE_BATCH_FORGET:
      return;
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
      return answer(device, request.unique, 0);
    default:
      return answer(device, request.unique, ENOSYS);
  }
}

}  // namespace

std::unique_ptr<StuckFileSystem> StuckFileSystem::mount_at(const std::string& folder) {
  FileDescriptor device(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
  if (device.get() < 0) return nullptr;
  const std::string options =
      fmt::format("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.get());
  if (::mount("stuck", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0)
    return nullptr;
  return std::make_unique<StuckFileSystem>(std::move(device), folder);
}

StuckFileSystem::StuckFileSystem(FileDescriptor device, std::string folder)
    : device_(std::move(device)),
      folder_(std::move(folder)),
      wake_(::eventfd(0, EFD_CLOEXEC)),
      server_([this] { serve(); }) {}

void StuckFileSystem::serve() {
  std::vector<char> buffer(kRequestBytesMax);
  std::array<pollfd, 2> waiting{pollfd{device_.get(), POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
  for (;;) {
    ::poll(waiting.data(), waiting.size(), -1);
    if (waiting[1].revents != 0) return;
    const ssize_t got = ::read(device_.get(), buffer.data(), buffer.size() - 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT)) continue;
    if (got < static_cast<ssize_t>(sizeof(fuse_in_header))) return;  // unmounted
    buffer[static_cast<std::size_t>(got)] = '\0';
    fuse_in_header request{};
    std::memcpy(&request, buffer.data(), sizeof request);
    handle(device_.get(), request, buffer.data() + sizeof request);
  }
}

void StuckFileSystem::abort() {
  if (!server_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
  server_.join();
  device_ = FileDescriptor();  // the kernel fails all requests of a file system without a server
  ::umount2(folder_.c_str(), MNT_DETACH);
}

}  // namespace train::e2e
