#include "launcher/cluster/output_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

namespace train {
namespace {

Result<int> open_log(const std::string& path) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) return system_error(errno, "opening " + path);
  return fd;
}

Result<Unit> write_all(int fd, std::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t written = ::write(fd, data.data(), data.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno, "writing " + path);
    data.remove_prefix(static_cast<std::size_t>(written));
  }
  return Unit{};
}

}  // namespace

OutputLog::~OutputLog() {
  for (auto& [key, stream] : streams_) ::close(stream.fd);
}

Result<OutputLog::Stream*> OutputLog::stream_of(Attempt attempt, Rank rank, int number) {
  const auto key = std::make_tuple(attempt, rank, number);
  if (const auto found = streams_.find(key); found != streams_.end()) return &found->second;
  std::error_code ec;
  std::filesystem::create_directories(folder_.rank(attempt, rank), ec);
  Stream stream;
  stream.path = number == 1 ? folder_.stdout_log(attempt, rank) : folder_.stderr_log(attempt, rank);
  TRY(stream.fd, open_log(stream.path));
  TRY(stream.offset, held_bytes(stream));
  return &(streams_[key] = std::move(stream));
}

/// What an earlier launcher has copied of the stream. Once it was rotated only the supervisor
/// knows.
Result<std::uint64_t> OutputLog::held_bytes(Stream& stream) {
  struct stat status {};
  if (::fstat(stream.fd, &status) != 0) return system_error(errno, "looking at " + stream.path);
  stream.piece_bytes = static_cast<std::uint64_t>(status.st_size);
  stream.rotated = ::stat((stream.path + ".head").c_str(), &status) == 0;
  return stream.rotated ? 0 : stream.piece_bytes;
}

Result<std::uint64_t> OutputLog::append(Attempt attempt, Rank rank, int number,
                                        std::uint64_t offset, std::string_view data,
                                        std::string_view* fresh) {
  TRY(Stream * stream, stream_of(attempt, rank, number));
  *fresh = {};
  if (std::exchange(stream->rotated, false)) stream->offset = offset;
  if (offset > stream->offset) {  // the node's spool was full while nobody was here
    TRY_VOID(write_all(
        stream->fd,
        fmt::format("\n[trainrun: {} bytes of output are lost here]\n", offset - stream->offset),
        stream->path));
    stream->offset = offset;
  }
  const std::uint64_t known = stream->offset - offset;
  if (known >= data.size()) return stream->offset;
  data.remove_prefix(known);
  *fresh = data;
  if (stream->piece_bytes + data.size() > piece_bytes_max_) TRY_VOID(rotate(*stream));
  TRY_VOID(write_all(stream->fd, data, stream->path));
  stream->piece_bytes += data.size();
  stream->offset += data.size();
  return stream->offset;
}

Result<Unit> OutputLog::rotate(Stream& stream) {
  ::close(stream.fd);
  const std::string head = stream.path + ".head";
  struct stat status {};
  const std::string to = ::stat(head.c_str(), &status) == 0 ? stream.path + ".1" : head;
  if (::rename(stream.path.c_str(), to.c_str()) != 0)
    return system_error(errno, "renaming " + stream.path);
  TRY(stream.fd, open_log(stream.path));
  stream.piece_bytes = 0;
  return Unit{};
}

void OutputLog::close(Attempt attempt) {
  for (auto it = streams_.begin(); it != streams_.end();) {
    if (std::get<0>(it->first) != attempt) {
      ++it;
      continue;
    }
    ::close(it->second.fd);
    it = streams_.erase(it);
  }
}

}  // namespace train
