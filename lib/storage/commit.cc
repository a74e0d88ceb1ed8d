#include "lib/storage/commit.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "lib/storage/checkpoint_store.h"

namespace train {
namespace {

std::string ranks_text(const std::vector<Rank>& ranks) {
  constexpr std::size_t kRanksShown = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == kRanksShown) return fmt::format("{} and {} more", text, ranks.size() - i);
    text += fmt::format("{}{}", i == 0 ? "" : ", ", ranks[i].value);
  }
  return text;
}

Result<std::map<Rank, const CheckpointShard*>> shards_by_rank(
    const std::vector<CheckpointShard>& shards, int world_size) {
  std::map<Rank, const CheckpointShard*> by_rank;
  for (const CheckpointShard& shard : shards) {
    if (shard.rank.value < 0 || shard.rank.value >= world_size)
      return Error{Errc::InvalidArgument,
                   fmt::format("a shard is of rank {}, but the attempt has {} workers",
                               shard.rank.value, world_size)};
    if (!by_rank.emplace(shard.rank, &shard).second)
      return Error{Errc::InvalidArgument,
                   fmt::format("rank {} brought two shards", shard.rank.value)};
  }
  std::vector<Rank> missing;
  for (int rank = 0; rank < world_size; ++rank)
    if (!by_rank.contains(Rank{rank})) missing.push_back(Rank{rank});
  if (!missing.empty())
    return Error{Errc::InvalidArgument,
                 fmt::format("no shard of {} (world size {})", ranks_text(missing), world_size)};
  return by_rank;
}

/// Check that no path is a file of one rank and a folder of another.
Result<Unit> check_no_folder_is_a_file(const std::map<std::string, ManifestFile>& files) {
  for (const auto& [path, file] : files) {
    for (auto slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const auto clash = files.find(path.substr(0, slash));
      if (clash != files.end())
        return Error{
            Errc::InvalidArgument,
            fmt::format("'{}' is a file of {} and a folder of {}", clash->first,
                        ranks_text(clash->second.ranks), ranks_text(file.ranks)),
            "give the files of different ranks different names, such as rank-0003/state.bin"};
    }
  }
  return Unit{};
}

/// Return whether a launcher that died during the commit has already moved the file to its place.
bool is_in_place(FileSystem& fs, const std::string& target, const ManifestFile& file) {
  const auto status = fs.status(target);
  return status && status->kind == FileKind::File && status->bytes == file.bytes;
}

}  // namespace

Result<std::vector<ManifestFile>> merge_shards(const std::vector<CheckpointShard>& shards,
                                               int world_size) {
  TRY(const auto by_rank, shards_by_rank(shards, world_size));
  std::map<std::string, ManifestFile> files;
  for (const auto& [rank, shard] : by_rank) {
    for (const CheckpointFile& file : shard->files) {
      TRY_VOID(check_file_path(file.path));
      ManifestFile merged{file, {rank}};
      if (!shard->nodes.empty()) merged.at = shard->dir, merged.nodes = shard->nodes;
      const auto [found, is_new] = files.try_emplace(file.path, std::move(merged));
      if (is_new) continue;
      ManifestFile& first = found->second;
      if (first.digest != file.digest || first.bytes != file.bytes)
        return Error{
            Errc::InvalidArgument,
            fmt::format("ranks {} and {} wrote different bytes to '{}' ({} bytes, xxh3-128 {}, and "
                        "{} bytes, xxh3-128 {})",
                        first.ranks.front().value, rank.value, file.path, first.bytes,
                        to_hex(first.digest), file.bytes, to_hex(file.digest)),
            "give the files of different ranks different names, such as rank-0003/state.bin"};
      if (first.ranks.back() == rank)
        return Error{Errc::InvalidArgument,
                     fmt::format("the shard of rank {} names '{}' twice", rank.value, file.path)};
      first.ranks.push_back(rank);
    }
  }
  TRY_VOID(check_no_folder_is_a_file(files));
  std::vector<ManifestFile> merged;
  merged.reserve(files.size());
  for (auto& [path, file] : files) merged.push_back(std::move(file));
  return merged;
}

Result<Unit> assemble(FileSystem& fs, const std::string& pending,
                      const std::vector<CheckpointShard>& shards,
                      const std::vector<ManifestFile>& files) {
  std::map<Rank, std::string> shard_folders;
  for (const CheckpointShard& shard : shards) {
    if (!shard.nodes.empty()) {
      TRY_VOID(make_folders(fs, pending));
      continue;
    }
    if (!shard.dir.starts_with(".rank-") || shard.dir.find('/') != std::string::npos)
      return Error{Errc::InvalidArgument,
                   fmt::format("'{}' is not a shard folder", escape_name(shard.dir))};
    shard_folders[shard.rank] = join_path(pending, shard.dir);
  }
  std::set<std::string> folders;  // parents sort before their contents
  for (const ManifestFile& file : files) {
    if (!file.nodes.empty()) continue;
    for (auto slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1)) {
      const std::string folder = join_path(pending, file.path.substr(0, slash));
      if (!folders.insert(folder).second) continue;
      if (auto made = fs.make_folder(folder);
          made.has_error() && made.error().code != Errc::AlreadyExists)
        return made.error();
    }
    const std::string source = join_path(shard_folders[file.ranks.front()], file.path);
    const std::string target = join_path(pending, file.path);
    const auto found = fs.status(source);
    if (found.has_error() && found.error().code == Errc::NotFound && is_in_place(fs, target, file))
      continue;
    TRY(const FileStatus status, found);
    if (status.kind != FileKind::File || status.bytes != file.bytes)
      return Error{Errc::Corrupt, fmt::format("'{}' has {} bytes, rank {} wrote {}", source,
                                              status.bytes, file.ranks.front().value, file.bytes)};
    TRY_VOID(fs.rename_new(source, target));
  }
  TRY(const auto entries, fs.list(pending));
  for (const FolderEntry& entry : entries) {
    if (!entry.name.starts_with('.')) continue;
    const std::string path = join_path(pending, entry.name);
    if (entry.kind == FileKind::Folder)
      TRY_VOID(remove_tree(fs, path));
    else
      TRY_VOID(fs.remove_file(path));
  }
  for (auto folder = folders.rbegin(); folder != folders.rend(); ++folder)
    TRY_VOID(fs.sync_folder(*folder));
  return Unit{};
}

Result<Unit> write_manifest(FileSystem& fs, const std::string& pending, const Manifest& manifest) {
  TRY(const std::string text, format_manifest(manifest));
  TRY(auto file, fs.create(join_path(pending, kManifestName)));
  TRY_VOID(file->write(text));
  TRY_VOID(file->sync());
  return fs.sync_folder(pending);
}

Result<Unit> publish(FileSystem& fs, const std::string& pending, const std::string& committed) {
  TRY_VOID(fs.rename_new(pending, committed));
  auto synced = fs.sync_folder(parent_path(committed));
  // The caller will tell everybody that there is no such checkpoint.
  if (synced.has_error()) (void)fs.rename_new(committed, pending);
  return synced;
}

}  // namespace train
