#include "launcher/cluster/reports/output_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "launcher/cluster/reports/log_piece.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

constexpr std::string_view kRemoved =
    "[trainrun: removed, as the run's output had reached its limit]\n";

Result<FileDescriptor> open_log(const std::string& path) {
  FileDescriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (fd.get() < 0) return system_error(errno, "opening " + path);
  return fd;
}

}  // namespace

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

/// Return how much of the stream an earlier launcher has copied. Once the file has been rotated,
/// only the supervisor knows.
Result<std::uint64_t> OutputLog::held_bytes(Stream& stream) {
  struct stat status {};
  if (::fstat(stream.fd.get(), &status) != 0)
    return system_error(errno, "looking at " + stream.path);
  stream.piece_bytes = static_cast<std::uint64_t>(status.st_size);
  stream.rotated = has_head(stream);
  if (!stream.rotated) return stream.piece_bytes;
  const std::vector<LogPiece> pieces = open_pieces(stream.path);
  if (!pieces.empty() && pieces.back().newest) {
    stream.piece_begin = pieces.back().begin;
    stream.piece_bytes = pieces.back().end - pieces.back().begin;
    return 0;
  }
  // The launcher died before it wrote the header.
  stream.piece_begin = pieces.empty() ? 0 : pieces.back().end;
  if (stream.piece_bytes == 0)
    TRY_VOID(write_all(stream.fd.get(), piece_header(stream.piece_begin), stream.path));
  return 0;
}

/// Return whether the stream's first piece has got its own name.
bool OutputLog::has_head(const Stream& stream) {
  struct stat status {};
  return ::stat((stream.path + ".head").c_str(), &status) == 0;
}

Result<Unit> OutputLog::write_output(Stream& stream, std::string_view data) {
  TRY_VOID(write_all(stream.fd.get(), data, stream.path));
  stream.piece_bytes += data.size();
  return Unit{};
}

Result<std::uint64_t> OutputLog::append(Attempt attempt, Rank rank, int number,
                                        std::uint64_t offset, std::string_view data,
                                        std::string_view* fresh) {
  TRY(Stream * stream, stream_of(attempt, rank, number));
  *fresh = {};
  if (std::exchange(stream->rotated, false)) stream->offset = offset;
  if (offset > stream->offset) {  // the node's spool was full while there was no launcher
    // From here on, the file's size does not say how much has been copied, as a later launcher
    // would believe.
    if (!has_head(*stream)) TRY_VOID(rotate(*stream));
    TRY_VOID(write_output(*stream, fmt::format("\n[trainrun: {} bytes of output are lost here]\n",
                                               offset - stream->offset)));
    stream->offset = offset;
  }
  const std::uint64_t known = stream->offset - offset;
  if (known >= data.size()) return stream->offset;
  data.remove_prefix(known);
  *fresh = data;
  if (stream->piece_bytes + data.size() > piece_bytes_max()) TRY_VOID(rotate(*stream));
  make_room(data.size());
  note_time(attempt, {rank.value, number}, *stream);
  TRY_VOID(write_output(*stream, data));
  *held_bytes_ += data.size();
  stream->offset += data.size();
  return stream->offset;
}

/// Note when the stream's next output arrives.
void OutputLog::note_time(Attempt attempt, StreamKey key, const Stream& stream) {
  if (clock_ == nullptr) return;
  const auto times = times_.try_emplace(attempt, folder_.output_times(attempt)).first;
  const auto noted =
      times->second.note(key, stream.piece_begin + stream.piece_bytes, clock_->wall());
  if (noted) *held_bytes_ += *noted;
  if (noted.has_error() && !std::exchange(times_fail_, true)) times_error_ = noted.error();
}

Result<Unit> OutputLog::rotate(Stream& stream) {
  // The new piece gets its header before its name: without one, nobody would read it.
  const std::string header = piece_header(stream.piece_begin + stream.piece_bytes);
  const std::string anew = stream.path + ".new";
  ::unlink(anew.c_str());  // left by a launcher that died
  TRY(FileDescriptor file, open_log(anew));
  if (auto written = write_all(file.get(), header, anew); written.has_error()) {
    ::unlink(anew.c_str());
    return written;
  }
  const std::string to = stream.path + (has_head(stream) ? ".1" : ".head");
  struct stat status {};
  const std::uint64_t replaced =
      ::stat(to.c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size) : 0;
  if (::rename(stream.path.c_str(), to.c_str()) != 0)
    return system_error(errno, "renaming " + stream.path);
  if (::rename(anew.c_str(), stream.path.c_str()) != 0) {
    const int failed = errno;
    (void)::rename(to.c_str(), stream.path.c_str());
    return system_error(failed, "renaming " + anew);
  }
  if (held_bytes_) *held_bytes_ -= std::min(*held_bytes_, replaced);
  if (held_bytes_) *held_bytes_ += header.size();
  stream.fd = std::move(file);
  stream.piece_begin += std::exchange(stream.piece_bytes, 0);
  return Unit{};
}

/// Return the limit of one piece. Streams share the run's limit so that each keeps its beginning
/// and its newest lines.
std::uint64_t OutputLog::piece_bytes_max() const {
  const std::uint64_t share = limits_.run_bytes / std::max<std::size_t>(streams_.size(), 1);
  return std::min(limits_.stream_bytes, share) / 3;
}

std::vector<OutputLog::Piece> OutputLog::pieces() const {
  namespace fs = std::filesystem;
  std::vector<Piece> all;
  std::error_code ec;
  const fs::path attempts = fs::path(folder_.attempt(Attempt{0})).parent_path();
  for (fs::recursive_directory_iterator at(attempts, ec), end; !ec && at != end; at.increment(ec)) {
    const std::string name = at->path().filename();
    if (!name.starts_with("stdout.log") && !name.starts_with("stderr.log") &&
        name != "output.times")
      continue;
    struct stat status {};
    if (::lstat(at->path().c_str(), &status) != 0 || !S_ISREG(status.st_mode)) continue;
    const fs::path below = at->path().lexically_relative(attempts);  // "000/ranks/0003/stdout.log"
    Piece piece{.bytes = static_cast<std::uint64_t>(status.st_size), .path = at->path()};
    piece.attempt.value = static_cast<std::uint32_t>(std::atoll(below.begin()->c_str()));
    const bool open = std::any_of(streams_.begin(), streams_.end(), [&](const auto& stream) {
      return std::get<0>(stream.first) == piece.attempt;
    });
    piece.order = !open ? 0 : name.ends_with(".1") ? 1 : name.ends_with(".head") ? 2 : 3;
    all.push_back(std::move(piece));
  }
  return all;
}

/// Remove more than is needed now, so that we need not look at all files for each line. A removed
/// file is left with one line that says so, because its name tells the next launcher what existed.
void OutputLog::make_room(std::uint64_t bytes) {
  if (held_bytes_ && *held_bytes_ + bytes <= limits_.run_bytes) return;
  std::vector<Piece> all = pieces();
  std::uint64_t held = 0;
  for (const Piece& piece : all) held += piece.bytes;
  held_bytes_ = held;
  if (held + bytes <= limits_.run_bytes) return;
  std::sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) {
    return std::tuple(a.order, a.attempt, b.bytes) < std::tuple(b.order, b.attempt, a.bytes);
  });
  const std::uint64_t enough = limits_.run_bytes / 10 * 9;
  for (const Piece& piece : all) {
    if (*held_bytes_ + bytes <= enough || piece.order > 2) return;
    if (piece.bytes <= kRemoved.size()) continue;
    const int fd = ::open(piece.path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) continue;
    (void)write_all(fd, kRemoved, piece.path);
    ::close(fd);
    *held_bytes_ -= piece.bytes - kRemoved.size();
    removed_bytes_ += piece.bytes;
  }
}

void OutputLog::close(Attempt attempt) {
  times_.erase(attempt);
  std::erase_if(streams_, [attempt](const auto& one) { return std::get<0>(one.first) == attempt; });
}

}  // namespace train
