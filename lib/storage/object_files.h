// This file shows a run in an object store as a file system, so that code that reads checkpoints
// reads these too. It finds <url>/checkpoints/checkpoint_000012/model.bin at the place that the
// checkpoint's manifest names (FORMAT.md section 7). Small files can be written as a whole
// (write_small_file); a folder exists while something is in it. Operations that object stores lack
// (locks, appending) are refused.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "lib/storage/manifest.h"
#include "lib/storage/object_store.h"

namespace train {

class ObjectFiles final : public FileSystem {
 public:
  /// `url` is the run, "s3://bucket/runs/job"; `store` must be opened there.
  ObjectFiles(std::shared_ptr<ObjectStore> store, std::string url)
      : store_(std::move(store)), url_(std::move(url)) {}

  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override;
  Result<std::unique_ptr<WritableFile>> open_to_append(const std::string& path) override;
  Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
  Result<Unit> rename(const std::string& from, const std::string& to) override;
  Result<Unit> rename_new(const std::string& from, const std::string& to) override;
  Result<Unit> make_folder(const std::string& path) override;
  Result<Unit> remove_file(const std::string& path) override;
  Result<Unit> remove_folder(const std::string& path) override;
  Result<Unit> sync_folder(const std::string& path) override;
  Result<FileStatus> status(const std::string& path) override;
  Result<std::vector<FolderEntry>> list(const std::string& path) override;
  Result<std::uint64_t> free_bytes(const std::string& path) override;
  Result<bool> same_file_system(const std::string& a, const std::string& b) override;

  ObjectStore& store() { return *store_; }
  /// Return the key of a path below the run's URL; the key of a checkpoint's file is below that of
  /// its folder.
  std::string key_of(const std::string& path) const;

 private:
  Result<std::string> location_of(const std::string& path);
  Result<std::uint64_t> bytes_of(const std::string& key);
  Result<std::vector<StoredObject>> list_anew(const std::string& folder);
  Result<bool> is_closed(const StoredObject& manifest);

  std::shared_ptr<ObjectStore> store_;
  const std::string url_;
  std::mutex mutex_;
  // Where the files of each checkpoint are. Manifests and the objects that they name never change;
  // status() forgets a checkpoint that was removed.
  std::map<std::string, std::map<std::string, std::string>> locations_;  // folder → file → key
  std::map<std::string, std::uint64_t> bytes_;                           // of the listed keys
};

}  // namespace train
