#include "lib/storage/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "lib/base/quota.h"
#include "lib/storage/new_folders.h"
#include "lib/storage/staged_files.h"

namespace train {
namespace {

constexpr int kShardNamesMax = 100;
constexpr std::size_t kFilesAtOnce = 64;  // open at a time
constexpr std::string_view kPendingPrefix = ".tmp-", kDataPrefix = "data-";

class ShardWriter {
 public:
  ShardWriter(FileSystem& fs, std::string staged, std::string shard, bool move,
              std::size_t buffer_bytes, std::stop_token stop)
      : fs_(fs),
        staged_(std::move(staged)),
        shard_(std::move(shard)),
        folders_(fs, shard_),
        move_(move),
        buffer_(buffer_bytes, '\0'),
        stop_(std::move(stop)) {}

  /// Write all files. The files of a group are on their way to the disk while they are digested;
  /// only then wait for them.
  Result<std::vector<CheckpointFile>> write(const std::vector<StagedFile>& files) {
    std::vector<CheckpointFile> written;
    for (std::size_t begin = 0; begin < files.size(); begin += kFilesAtOnce) {
      const std::size_t end = std::min(begin + kFilesAtOnce, files.size());
      std::vector<Unsynced> group;
      for (std::size_t i = begin; i < end; ++i) {
        TRY_VOID(folders_.make_for(files[i].path));
        TRY(auto one, move_ ? move(files[i].path) : copy(files[i].path));
        group.push_back(std::move(one));
      }
      for (std::size_t i = begin; move_ && i < end; ++i)
        TRY_VOID(digest(*group[i - begin].moved, files[i], group[i - begin].file));
      for (Unsynced& one : group) {
        TRY_VOID(sync(one));
        written.push_back(std::move(one.file));
      }
    }
    TRY_VOID(folders_.sync());
    return written;
  }

  /// Move the files back and remove the shard. Best effort: the launcher's clean-up does the rest.
  void undo() {
    bool all_back = true;
    for (const std::string& path : moved_)
      all_back &= !fs_.rename_new(join_path(shard_, path), join_path(staged_, path)).has_error();
    if (all_back) (void)remove_tree(fs_, shard_);
  }

 private:
  struct Unsynced {
    CheckpointFile file;
    std::unique_ptr<ReadableFile> moved;  // or
    std::unique_ptr<WritableFile> copied;
  };

  Result<Unsynced> move(const std::string& path) {
    const std::string target = join_path(shard_, path);
    TRY_VOID(fs_.rename_new(join_path(staged_, path), target));
    moved_.push_back(path);
    TRY(auto file, fs_.open_to_read(target));
    file->begin_sync();
    return Unsynced{{path, 0, {}}, std::move(file), nullptr};
  }

  Result<Unsynced> copy(const std::string& path) {
    return copy(join_path(staged_, path), join_path(shard_, path), path);
  }
  Result<Unsynced> copy(const std::string& from, const std::string& to, const std::string& path) {
    TRY(auto source, fs_.open_to_read(from));
    TRY(auto target, fs_.create(to));
    Unsynced copied{{path, 0, {}}, nullptr, std::move(target)};
    TRY_VOID(read_through(*source, copied.file, copied.copied.get()));
    return copied;
  }

  Result<Unit> digest(ReadableFile& source, const StagedFile& staged, CheckpointFile& file) {
    if (!staged.digest) return read_through(source, file, nullptr);
    file.bytes = staged.bytes;
    file.digest = *staged.digest;
    return Unit{};
  }

  Result<Unit> sync(Unsynced& one) {
    const auto synced = one.moved ? one.moved->sync() : one.copied->sync();
    return synced.has_error() ? rewrite(one.file) : Unit{};
  }

  /// Write the bytes to a new file. A failed fsync may have dropped written pages, which a second
  /// fsync would not report.
  Result<Unit> rewrite(const CheckpointFile& expected) {
    const std::string target = join_path(shard_, expected.path);
    const std::string anew = join_path(shard_, ".rewrite");
    TRY(const auto copied, copy(target, anew, expected.path));
    TRY_VOID(copied.copied->sync());
    if (copied.file != expected)
      return Error{Errc::Corrupt,
                   fmt::format("'{}' changed while it was written: xxh3-128 is {}, expected {}",
                               target, to_hex(copied.file.digest), to_hex(expected.digest))};
    return fs_.rename(anew, target);
  }

  /// Digest `source` to its end, and copy it to `target`, if any.
  Result<Unit> read_through(ReadableFile& source, CheckpointFile& file, WritableFile* target) {
    Hasher hasher;
    for (;;) {
      if (stop_.stop_requested())
        return Error{Errc::Cancelled, fmt::format("stopped while writing '{}'", file.path)};
      TRY(const std::size_t got, source.read(buffer_.data(), buffer_.size()));
      if (got == 0) break;
      const std::string_view bytes(buffer_.data(), got);
      hasher.update(bytes);
      file.bytes += got;
      if (target != nullptr) TRY_VOID(target->write(bytes));
    }
    file.digest = hasher.digest();
    return Unit{};
  }

  FileSystem& fs_;
  const std::string staged_;
  const std::string shard_;
  NewFolders folders_;
  const bool move_;
  std::string buffer_;
  std::stop_token stop_;
  std::vector<std::string> moved_;
};

Error no_space(FileSystem& fs, const std::string& folder, std::uint64_t needed,
               std::string_view what) {
  if (says_over_quota(what))
    return Error{Errc::NoSpace,
                 fmt::format("{}: the checkpoint's shard needs {} bytes", what, needed),
                 std::string(kOverQuotaHint)};
  const auto free = fs.free_bytes(folder);
  return Error{
      Errc::NoSpace,
      fmt::format("{}: the checkpoint's shard needs {} bytes, {} are free in '{}'", what, needed,
                  free.has_error() ? "an unknown number" : std::to_string(*free), folder),
      "free some space, or lower checkpoint_config.num_to_keep"};
}

/// Make a folder under a name that no earlier try has used.
Result<std::string> make_shard_folder(FileSystem& fs, const std::string& pending, Rank rank) {
  for (int n = 0; n < kShardNamesMax; ++n) {
    const std::string name = n == 0 ? fmt::format(".rank-{:04}", rank.value)
                                    : fmt::format(".rank-{:04}.{}", rank.value, n);
    auto made = fs.make_folder(join_path(pending, name));
    if (!made.has_error()) return name;
    if (made.error().code != Errc::AlreadyExists) return made.error();
  }
  return Error{Errc::ResourceExhausted,
               fmt::format("rank {} has tried to write its shard {} times in '{}'", rank.value,
                           kShardNamesMax, pending)};
}

}  // namespace

std::string pending_name(const PendingCheckpoint& pending) {
  return fmt::format("{}{}-{}.{}", kPendingPrefix, pending.generation.value, pending.attempt.value,
                     pending.checkpoint_seq.value);
}

std::optional<PendingCheckpoint> parse_pending_name(std::string_view name) {
  if (!name.starts_with(kPendingPrefix)) return std::nullopt;
  PendingCheckpoint pending;
  const char* const end = name.data() + name.size();
  const auto generation =
      std::from_chars(name.data() + kPendingPrefix.size(), end, pending.generation.value);
  if (generation.ec != std::errc() || generation.ptr == end) return std::nullopt;
  const auto attempt = std::from_chars(generation.ptr + 1, end, pending.attempt.value);
  if (attempt.ec != std::errc() || attempt.ptr == end) return std::nullopt;
  std::from_chars(attempt.ptr + 1, end, pending.checkpoint_seq.value);
  if (pending_name(pending) != name) return std::nullopt;
  return pending;
}

std::string data_name(const PendingCheckpoint& pending) {
  return fmt::format("{}{}", kDataPrefix, pending_name(pending).substr(kPendingPrefix.size()));
}

std::optional<PendingCheckpoint> parse_data_name(std::string_view name) {
  if (!name.starts_with(kDataPrefix)) return std::nullopt;
  return parse_pending_name(fmt::format("{}{}", kPendingPrefix, name.substr(kDataPrefix.size())));
}

std::string shard_name(Rank rank) { return fmt::format("rank-{:04}", rank.value); }

std::optional<PendingCheckpoint> parse_shard_location(std::string_view location) {
  const auto slash = location.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view shard = location.substr(slash + 1);
  std::int32_t rank = -1;
  if (shard.starts_with("rank-"))
    std::from_chars(shard.data() + 5, shard.data() + shard.size(), rank);
  if (rank < 0 || shard_name(Rank{rank}) != shard) return std::nullopt;
  return parse_data_name(location.substr(0, slash));
}

Result<CheckpointShard> write_shard(FileSystem& fs, const std::string& checkpoints_folder,
                                    const PendingCheckpoint& pending, Rank rank,
                                    const std::string& staged, const WriteShardOptions& options,
                                    std::stop_token stop) {
  TRY(const auto files, staged_files(fs, staged));
  std::uint64_t needed = 0, largest = 1;
  for (const StagedFile& file : files) {
    needed += file.bytes;
    largest = std::max(largest, file.bytes);
  }

  const std::string pending_folder = join_path(checkpoints_folder, pending_name(pending));
  TRY_VOID(make_folders(fs, checkpoints_folder));
  if (auto made = fs.make_folder(pending_folder);
      made.has_error() && made.error().code != Errc::AlreadyExists)
    return made.error();  // AlreadyExists: another rank made it
  TRY(const bool one_file_system, fs.same_file_system(staged, pending_folder));
  const bool move = options.move && one_file_system;
  if (!move) {
    TRY(const std::uint64_t free, fs.free_bytes(pending_folder));
    if (free < needed)
      return no_space(fs, pending_folder, needed, fmt::format("not writing '{}'", pending_folder));
  }
  TRY(const std::string folder, make_shard_folder(fs, pending_folder, rank));

  ShardWriter writer(fs, staged, join_path(pending_folder, folder), move,
                     std::min<std::uint64_t>(options.buffer_bytes, largest), std::move(stop));
  auto written = writer.write(files);
  for (const std::string& above : {pending_folder, checkpoints_folder}) {
    if (written.has_error()) break;
    if (auto synced = fs.sync_folder(above); synced.has_error())
      written = std::move(synced).error();
  }
  if (!written.has_error()) return CheckpointShard{rank, folder, std::move(*written)};
  writer.undo();
  Error error = std::move(written).error();
  if (error.code == Errc::NoSpace) error = no_space(fs, pending_folder, needed, error.message);
  return std::move(error).with_context(fmt::format("writing the shard of rank {}", rank.value));
}

}  // namespace train
