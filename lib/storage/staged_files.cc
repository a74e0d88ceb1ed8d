#include "lib/storage/staged_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <string_view>

#include "lib/storage/manifest.h"

namespace train {
namespace {

constexpr std::uint64_t kDigestsBytesMax = 64 << 20;
constexpr std::size_t kShardListBytesMax = 5u << 19;  // of a frame's 4 MiB
constexpr std::size_t kListedFileBytes = 64;          // size and digest of a file, besides its path

Result<Unit> collect(FileSystem& fs, const std::string& root, const std::string& below,
                     std::vector<StagedFile>& files) {
  const std::string folder = below.empty() ? root : join_path(root, below);
  TRY(const auto entries, fs.list(folder));
  for (const FolderEntry& entry : entries) {
    if (entry.name.starts_with('.')) continue;
    const std::string path = join_path(below, entry.name);
    TRY_VOID(check_file_path(path));
    if (entry.kind == FileKind::Folder) {
      TRY_VOID(collect(fs, root, path, files));
    } else if (entry.kind == FileKind::File) {
      TRY(const FileStatus status, fs.status(join_path(root, path)));
      files.push_back({path, status.bytes});
    } else {
      return Error{
          Errc::InvalidArgument,
          fmt::format("'{}' in '{}' is neither a file nor a folder", escape_name(path), root),
          "a checkpoint holds files and folders only: write a copy instead of a link"};
    }
  }
  return Unit{};
}

/// Check that the list of a rank's files is not too long, because it must fit into one message.
Result<Unit> check_amount(const std::vector<StagedFile>& files, const std::string& folder) {
  std::size_t bytes = 0;
  for (const StagedFile& file : files) bytes += file.path.size() + kListedFileBytes;
  if (bytes <= kShardListBytesMax) return Unit{};
  return Error{
      Errc::ResourceExhausted,
      fmt::format("the checkpoint in '{}' has {} files, whose list takes {} bytes; for a rank's "
                  "shard it may take {}, where each file adds {} to its path's length",
                  folder, files.size(), bytes, kShardListBytesMax, kListedFileBytes),
      "write fewer, larger files"};
}

/// Parse a line of staged_digest_line(), without its newline; return nothing for any other text.
std::optional<StagedFile> parse_line(std::string_view line) {
  const auto first = line.find(' '), second = line.find(' ', first + 1);
  if (first == line.npos || second == line.npos) return std::nullopt;
  StagedFile file{.path = std::string(line.substr(second + 1)), .bytes = 0};
  file.digest = parse_digest(line.substr(0, first));
  const std::string_view bytes = line.substr(first + 1, second - first - 1);
  const auto parsed = std::from_chars(bytes.begin(), bytes.end(), file.bytes);
  if (!file.digest || parsed.ec != std::errc() || parsed.ptr != bytes.end()) return std::nullopt;
  return file;
}

Result<std::map<std::string, StagedFile>> digested_files(FileSystem& fs,
                                                         const std::string& folder) {
  std::map<std::string, StagedFile> digested;
  const auto text = read_small_file(fs, join_path(folder, kStagedDigestsName), kDigestsBytesMax);
  if (text.has_error() && text.error().code == Errc::NotFound) return digested;
  if (text.has_error()) return text.error();
  std::string_view rest = *text;
  for (auto end = rest.find('\n'); end != rest.npos; end = rest.find('\n')) {
    if (auto file = parse_line(rest.substr(0, end))) digested[file->path] = *file;
    rest.remove_prefix(end + 1);
  }
  return digested;
}

}  // namespace

std::string staged_digest_line(const StagedFile& file) {
  return fmt::format("{} {} {}\n", to_hex(file.digest.value()), file.bytes, file.path);
}

Result<std::vector<StagedFile>> staged_files(FileSystem& fs, const std::string& folder) {
  TRY(const FileStatus status, fs.status(folder));
  if (status.kind != FileKind::Folder)
    return Error{Errc::InvalidArgument, fmt::format("'{}' is not a directory", folder)};
  std::vector<StagedFile> files;
  TRY_VOID(collect(fs, folder, "", files));
  TRY_VOID(check_amount(files, folder));
  TRY(const auto digested, digested_files(fs, folder));
  for (StagedFile& file : files) {
    const auto found = digested.find(file.path);
    if (found != digested.end() && found->second.bytes == file.bytes)
      file.digest = found->second.digest;
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace train
