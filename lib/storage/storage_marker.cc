#include "lib/storage/storage_marker.h"

#include <fmt/format.h>

namespace train {
namespace {

constexpr std::string_view kPrefix = ".probe-";
constexpr std::uint64_t kMarkBytesMax = 256;
constexpr const char* kSameMount =
    "is the same file system mounted there? run_config.storage_path must be a folder that all "
    "nodes share";

std::string mark_path(const std::string& run_dir, Generation generation) {
  return join_path(run_dir, fmt::format("{}{}", kPrefix, generation.value));
}

Result<Unit> write_file(FileSystem& fs, const std::string& path, std::string_view text) {
  TRY(auto file, fs.create(path));
  return file->write(text);
}

Result<Unit> look_for_marker(FileSystem& fs, const StorageCheck& check) {
  const auto mark = read_small_file(fs, mark_path(check.run_dir, check.generation), kMarkBytesMax);
  if (mark && *mark == check.mark) return Unit{};
  if (mark)
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' is not the launcher's storage: it has another launcher's marker",
                             check.run_dir),
                 kSameMount};
  if (mark.error().code == Errc::Permission) {
    Error closed = mark.error();
    closed.hint = "the user that workers run as must be able to read and write there";
    return std::move(closed).with_context("this node may not access the run's storage");
  }
  if (mark.error().code != Errc::NotFound) return mark.error();
  const std::string_view what =
      fs.status(check.run_dir) ? "it exists, but lacks this launcher's marker" : "no such folder";
  return Error{Errc::InvalidArgument,
               fmt::format("'{}' is not the launcher's storage: {}", check.run_dir, what),
               kSameMount};
}

Result<Unit> write_and_remove(FileSystem& fs, const StorageCheck& check) {
  const std::string path =
      fmt::format("{}-{}", mark_path(check.run_dir, check.generation), check.prober);
  const auto written = write_file(fs, path, check.mark);
  auto removed = fs.remove_file(path);
  if (!written) return written.error();
  return removed;
}

Error cannot_write(Error error) {
  if (error.code == Errc::Permission) {
    error.code = Errc::InvalidArgument;
    error.hint = "the user that workers run as must be able to write there";
  }
  return std::move(error).with_context("the run's storage cannot be written");
}

}  // namespace

Result<Unit> leave_storage_marker(FileSystem& fs, const std::string& run_dir, Generation generation,
                                  const std::string& text) {
  remove_storage_markers(fs, run_dir);
  return write_file(fs, mark_path(run_dir, generation), text);
}

Result<bool> has_storage_marker(FileSystem& fs, const std::string& run_dir, Generation generation,
                                const std::string& text) {
  const auto mark = read_small_file(fs, mark_path(run_dir, generation), kMarkBytesMax);
  if (mark) return *mark == text;
  if (mark.error().code != Errc::NotFound) return mark.error();
  TRY_VOID(fs.status(run_dir));
  return false;
}

void remove_storage_markers(FileSystem& fs, const std::string& run_dir) {
  const auto entries = fs.list(run_dir);
  if (!entries) return;
  for (const FolderEntry& entry : *entries) {
    if (entry.kind == FileKind::File && entry.name.starts_with(kPrefix))
      (void)fs.remove_file(join_path(run_dir, entry.name));
  }
}

Result<Unit> check_storage(FileSystem& fs, const StorageCheck& check) {
  TRY_VOID(look_for_marker(fs, check));
  if (const auto wrote = write_and_remove(fs, check); !wrote) return cannot_write(wrote.error());
  TRY(const std::uint64_t free, fs.free_bytes(check.run_dir));
  if (free < kFreeBytesMin)
    return Error{
        Errc::NoSpace,
        fmt::format(
            "the run's storage is full: {} bytes are free in '{}', at least {} are required", free,
            check.run_dir, kFreeBytesMin),
        "free some space there"};
  return Unit{};
}

}  // namespace train
