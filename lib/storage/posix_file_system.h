// The machine's own FileSystem, by system calls. It is stateless; any thread may use it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lib/base/file_descriptor.h"
#include "lib/storage/file_system.h"

namespace train {

class PosixFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> open_to_append(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
  Result<Unit> rename(const std::string& from, const std::string& to) override;
  Result<Unit> rename_new(const std::string& from, const std::string& to) override;
  Result<Unit> make_folder(const std::string& path) override;
  Result<Unit> remove_file(const std::string& path) override;
  Result<Unit> remove_folder(const std::string& path) override;
  Result<Unit> remove_all(const std::string& path) override;
  Result<Unit> sync_folder(const std::string& path) override;
  Result<FileStatus> status(const std::string& path) override;
  Result<std::vector<FolderEntry>> list(const std::string& path) override;
  Result<std::uint64_t> free_bytes(const std::string& path) override;
  Result<bool> same_file_system(const std::string& a, const std::string& b) override;
};

/// Replaces a file as a whole, readable by its owner only, for content that may include secrets.
/// The file stays as it was until finish(), and if that is never called. Syncs nothing; use
/// write_small_file() for content that must survive a power cut. One writer per path at a time.
class PrivateReplacement {
 public:
  static Result<PrivateReplacement> begin(std::string path);
  Result<Unit> append(std::string_view bytes);
  Result<Unit> finish();

 private:
  PrivateReplacement(FileDescriptor file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}
  FileDescriptor file_;
  std::string path_;
};

/// Replace a file as PrivateReplacement does.
Result<Unit> replace_private_file(const std::string& path, std::string_view text);

}  // namespace train
