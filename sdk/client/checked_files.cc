#include "sdk/client/checked_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <optional>

#include "lib/storage/checkpoint_store.h"
#include "sdk/client/failure.h"

namespace train::sdk {
namespace {

// A piece is still in the processor's cache when it is digested.
constexpr std::uint64_t kPieceBytes = 256 << 10;

}  // namespace

struct CheckedFiles::State {
  std::string folder;
  bool has_manifest = false;
  std::map<std::string, ManifestFile> files;  // of the manifest
  std::mutex mutex;
  std::map<std::string, bool> verified;  // by path
};

struct FileScan::State {
  std::string path;
  int fd = -1;
  std::uint64_t bytes = 0;
  std::optional<ManifestFile> expected;
  std::shared_ptr<CheckedFiles::State> owner;  // set if a digest is expected
  std::uint64_t position = 0;                  // everything before it is digested
  Hasher hasher;
  std::string gap;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (fd >= 0) ::close(fd);
  }

  void open();
  void pull(std::uint64_t begin, std::uint64_t end, char* to) const;
  void advance(std::uint64_t end, char* to);
};

void FileScan::State::open() {
  fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat info {};
  if (fd < 0 || ::fstat(fd, &info) != 0) throw_failure(system_error(errno, "opening " + path));
  bytes = static_cast<std::uint64_t>(info.st_size);
  if (!expected || bytes == expected->bytes) return;
  throw_failure({Errc::Corrupt, fmt::format("{}: '{}': {} bytes, expected {}", owner->folder,
                                            expected->path, bytes, expected->bytes)});
}

void FileScan::State::pull(std::uint64_t begin, std::uint64_t end, char* to) const {
  while (begin < end) {
    const ssize_t got =
        ::pread(fd, to, static_cast<std::size_t>(end - begin), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw_failure(system_error(got < 0 ? errno : EIO, "reading " + path));
    begin += static_cast<std::uint64_t>(got);
    to += got;
  }
}

/// Read and digest up to `end`. Store the bytes at `to`, unless it is null.
void FileScan::State::advance(std::uint64_t end, char* to) {
  if (to == nullptr && position < end) gap.resize(std::min(kPieceBytes, bytes));
  while (position < end) {
    const std::uint64_t piece = std::min(kPieceBytes, end - position);
    char* const into = to == nullptr ? gap.data() : to;
    pull(position, position + piece, into);
    hasher.update({into, static_cast<std::size_t>(piece)});
    position += piece;
    if (to != nullptr) to += piece;
  }
}

FileScan::FileScan(std::unique_ptr<State> state) : state_(std::move(state)) { state_->open(); }

FileScan::FileScan(std::string path) : state_(std::make_unique<State>()) {
  state_->path = std::move(path);
  state_->open();
}

FileScan::FileScan(FileScan&&) noexcept = default;
FileScan::~FileScan() = default;

const std::string& FileScan::path() const { return state_->path; }
std::uint64_t FileScan::bytes() const { return state_->bytes; }

void FileScan::read(std::uint64_t begin, std::uint64_t end, char* to) {
  State& state = *state_;
  if (begin > end || end > state.bytes) {
    throw_failure({Errc::Corrupt, fmt::format("{}: bytes {} to {} were requested, but it has {}",
                                              state.path, begin, end, state.bytes)});
  }
  if (!state.expected) return state.pull(begin, end, to);
  const std::uint64_t again = std::min(end, state.position);
  if (begin < again) {
    state.pull(begin, again, to);
    to += again - begin;
    begin = again;
  }
  if (begin == end) return;
  state.advance(begin, nullptr);
  state.advance(end, to);
}

void FileScan::finish() {
  State& state = *state_;
  if (!state.expected) return;
  state.advance(state.bytes, nullptr);
  value_or_throw(check_digest(state.owner->folder, *state.expected, state.hasher.digest()));
  const std::lock_guard lock(state.owner->mutex);
  state.owner->verified[state.expected->path] = true;
}

// ---- a folder

CheckedFiles::CheckedFiles(std::string folder) : state_(std::make_shared<State>()) {
  state_->folder = std::move(folder);
}

CheckedFiles::CheckedFiles(std::string folder, std::vector<ManifestFile> files)
    : CheckedFiles(std::move(folder)) {
  state_->has_manifest = true;
  for (ManifestFile& file : files) {
    std::string path = file.path;
    state_->files.emplace(std::move(path), std::move(file));
  }
}

CheckedFiles::~CheckedFiles() = default;

const std::string& CheckedFiles::folder() const { return state_->folder; }

std::string CheckedFiles::path_of(const std::string& name) const {
  return join_path(state_->folder, name);
}

bool CheckedFiles::has(const std::string& name) const {
  if (state_->has_manifest) return state_->files.contains(name);
  return ::access(path_of(name).c_str(), F_OK) == 0;
}

FileScan CheckedFiles::open(const std::string& name) const {
  auto scan = std::make_unique<FileScan::State>();
  scan->path = path_of(name);
  if (state_->has_manifest) {
    const auto file = state_->files.find(name);
    if (file == state_->files.end()) {
      throw_failure({Errc::NotFound, fmt::format("checkpoint '{}' has no '{}'", folder(), name)});
    }
    scan->expected = file->second;
    scan->owner = state_;
  }
  return FileScan(std::move(scan));
}

std::string CheckedFiles::read(const std::string& name) const {
  FileScan scan = open(name);
  std::string text(static_cast<std::size_t>(scan.bytes()), '\0');
  scan.read(0, text.size(), text.data());
  scan.finish();
  return text;
}

void CheckedFiles::verify_rest() const {
  for (const auto& [name, file] : state_->files) {
    {
      const std::lock_guard lock(state_->mutex);
      if (state_->verified[name]) continue;
    }
    open(name).finish();
  }
}

}  // namespace train::sdk
