// The files of a run's folder, for a reader who does not trust whoever may write them: no link is
// followed from the place on that the user has named, only plain files are opened, and every read
// is bounded. Calls block; any thread may call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Differs when a file was replaced or written to.
struct FileStamp {
  std::uint64_t inode = 0, bytes = 0;
  std::int64_t changed_ns = 0;  // mtime
  bool operator==(const FileStamp&) const = default;
};

struct FileRead {
  std::string text;
  FileStamp stamp;  // before it was read
};

class FolderFiles {
 public:
  static constexpr std::size_t kEntriesMax = 100'000;  // of a folder; more are left out

  /// `below`: the way from the place that the user has named to the run's folder, "" if it is that.
  explicit FolderFiles(std::string place, std::string below = "");

  const std::string& folder() const { return folder_; }
  /// Return the files of a folder in this one.
  FolderFiles of(const std::string& name) const { return FolderFiles(place_, beneath(name)); }
  /// Open a plain file for reading.
  Result<FileDescriptor> open(const std::string& name) const;
  /// Return the stamp of a plain file, or nothing if there is none that we can read.
  std::optional<FileStamp> stamp(const std::string& name) const;
  /// Read up to `bytes_max` bytes from `offset` on.
  Result<FileRead> read(const std::string& name, std::uint64_t offset, std::size_t bytes_max) const;
  /// Read a whole file; ResourceExhausted if it has more than `bytes_max`.
  Result<FileRead> read_whole(const std::string& name, std::size_t bytes_max) const;
  /// Return the names in a folder, sorted, without hidden ones; empty if there is none.
  std::vector<std::string> list(const std::string& name) const;
  /// Return whether it is a folder, reached without links.
  bool is_folder(const std::string& name) const;
  /// Return whether a launcher holds the run's lock. False if we may not look.
  bool is_locked() const;
  /// Return the folder's owner.
  std::optional<std::uint32_t> owner() const;

 private:
  std::string beneath(const std::string& name) const;

  std::string place_, below_, folder_;
};

}  // namespace train
