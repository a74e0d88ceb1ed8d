// An object store on top of an Arrow filesystem. Each kind of store implements two operations in
// its own way: putting an object on the condition that it is new, and remove(). This class does
// everything else.
#pragma once

#include <arrow/filesystem/filesystem.h>

#include <memory>
#include <string>

#include "lib/storage/object_store.h"
#include "lib/storage/remote/store_hints.h"

namespace train::remote {

/// Convert an Arrow status to an Error: "<doing> '<where>': <Arrow's text>".
Error error_from(const arrow::Status& status, std::string_view doing, const std::string& where,
                 const StoreHints& hints);

/// The differences between Arrow's filesystems.
struct ArrowTraits {
  StoreHints hints;
  /// True: read in one request, for which the client itself reads ahead. False: request pieces,
  /// some of them ahead.
  bool read_as_stream = false;
  /// Whether destroying a stream finishes its file, even if it is only half written.
  bool destroying_finishes = false;
};

class ArrowStore : public ObjectStore {
 public:
  /// `root` is Arrow's path, "bucket/folder"; `url` is for messages.
  ArrowStore(std::shared_ptr<arrow::fs::FileSystem> files, std::string root, std::string url,
             const ArrowTraits& traits)
      : files_(std::move(files)), root_(std::move(root)), url_(std::move(url)), traits_(traits) {}

  Result<std::string> get(const std::string& key, std::uint64_t bytes_max) override;
  Result<Unit> put(const std::string& key, std::string_view bytes) override;
  Result<Unit> put_new(const std::string& key, std::string_view bytes) final;
  Result<std::unique_ptr<ObjectWriter>> create(const std::string& key) override;
  Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& key) override;
  Result<std::vector<StoredObject>> list(const std::string& folder) override;

 protected:
  /// Make the keys of objects relative to the folder `above`, "" for none, which they lie below.
  static std::vector<ObjectStatus> below(const std::string& above,
                                         std::vector<ObjectStatus> objects);
  std::string path(const std::string& key) const { return join_path(root_, key); }
  std::string shown(const std::string& key) const { return join_path(url_, key); }
  arrow::fs::FileSystem& files() { return *files_; }
  /// Put the object if the key is free, else return AlreadyExists, whatever bytes the key has.
  virtual Result<Unit> put_if_absent(const std::string& key, std::string_view bytes) = 0;

 private:
  std::shared_ptr<arrow::fs::FileSystem> files_;
  const std::string root_, url_;
  const ArrowTraits traits_;
};

}  // namespace train::remote
