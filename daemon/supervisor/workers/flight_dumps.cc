#include "daemon/supervisor/workers/flight_dumps.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "lib/base/file_descriptor.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

constexpr std::size_t kDumpBytesMax = 8u << 20;
constexpr auto kLookEvery = std::chrono::milliseconds(50);

// LibTorch appends the rank, and ".pipe" to the pipe's name.
std::string pipe_stem(const std::string& spool_dir) { return spool_dir + "/flight-"; }
std::string dump_stem(const std::string& spool_dir) { return spool_dir + "/flight-dump-"; }

/// Return the complete dump, which ends with a full stop, as every pickle does. The worker may put
/// anything there: only a plain file is read.
std::optional<std::string> complete_dump(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found {};
  if (file.get() < 0 || ::fstat(file.get(), &found) != 0 || !S_ISREG(found.st_mode) ||
      found.st_size <= 0 || static_cast<std::uint64_t>(found.st_size) > kDumpBytesMax)
    return std::nullopt;
  std::string bytes(static_cast<std::size_t>(found.st_size), '\0');
  std::size_t size = 0;
  while (size < bytes.size()) {
    const ssize_t got = ::read(file.get(), bytes.data() + size, bytes.size() - size);
    if (got <= 0) return std::nullopt;
    size += static_cast<std::size_t>(got);
  }
  if (bytes.back() != '.') return std::nullopt;
  return bytes;
}

/// Write the file under another name first: who finds it, finds all of it. A worker may have put
/// anything there, so neither name is opened as it is.
void write_whole(int folder, const std::string& name, const std::string& bytes) {
  const std::string draft = name + ".tmp";
  ::unlinkat(folder, draft.c_str(), 0);
  FileDescriptor file(
      ::openat(folder, draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (file.get() < 0) return;
  if (write_all(file.get(), bytes, draft) &&
      ::renameat(folder, draft.c_str(), folder, name.c_str()) == 0)
    return;
  ::unlinkat(folder, draft.c_str(), 0);
}

}  // namespace

std::map<std::string, std::string> flight_variables(const std::string& spool_dir) {
  return {{"TORCH_NCCL_DEBUG_INFO_PIPE_FILE", pipe_stem(spool_dir)},
          {"TORCH_NCCL_DEBUG_INFO_TEMP_FILE", dump_stem(spool_dir)}};
}

std::vector<std::int32_t> ask_flight_recorders(const std::string& spool_dir,
                                               const std::vector<std::int32_t>& ranks) {
  std::vector<std::int32_t> asked;
  for (const std::int32_t rank : ranks) {
    const std::string pipe = fmt::format("{}{}.pipe", pipe_stem(spool_dir), rank);
    // Fails where there is no pipe, or nobody reads it any more.
    const FileDescriptor file(::open(pipe.c_str(), O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    struct stat found {};
    if (file.get() < 0 || ::fstat(file.get(), &found) != 0 || !S_ISFIFO(found.st_mode)) continue;
    ::unlink(fmt::format("{}{}", dump_stem(spool_dir), rank).c_str());  // an earlier one
    if (::write(file.get(), "1", 1) == 1) asked.push_back(rank);
  }
  return asked;
}

void keep_flight_dumps(const std::string& spool_dir, const std::vector<std::int32_t>& ranks,
                       const std::string& folder, TimePoint until) {
  std::error_code error;
  if (!std::filesystem::is_directory(std::filesystem::path(folder).parent_path(), error)) return;
  std::filesystem::create_directory(folder, error);
  const FileDescriptor into(
      ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (into.get() < 0) return;
  std::vector<std::int32_t> missing = ranks;
  for (;;) {
    std::erase_if(missing, [&](std::int32_t rank) {
      const auto dump = complete_dump(fmt::format("{}{}", dump_stem(spool_dir), rank));
      if (dump) write_whole(into.get(), fmt::format("rank-{}", rank), *dump);
      return dump.has_value();
    });
    if (missing.empty() || std::chrono::steady_clock::now() >= until) return;
    std::this_thread::sleep_for(kLookEvery);
  }
}

}  // namespace train
