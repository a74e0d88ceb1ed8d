// The object stores that datasets lie in. Each bucket (of HDFS: each cluster) is opened once in a
// process, by the storage module that checkpoints use, with the variables of this process's
// environment, which are those of the user who submitted the run.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lib/base/result.h"
#include "lib/data/read/expected_fetches.h"
#include "lib/storage/object_store.h"

namespace train::data {

class ObjectPlace {
 public:
  /// `root` is the URL with its last '/': "s3://bucket/", "hdfs://namenode:8020/".
  ObjectPlace(std::string root, std::shared_ptr<ObjectStore> store)
      : root_(std::move(root)), store_(std::move(store)) {}

  const std::string& root() const { return root_; }
  ObjectStore& store() const { return *store_; }
  /// What datasets will soon read of it.
  ExpectedFetches& expected() const { return expected_; }
  std::string url_of(const std::string& key) const { return root_ + key; }
  std::string key_of(const std::string& url) const { return url.substr(root_.size()); }

 private:
  const std::string root_;
  const std::shared_ptr<ObjectStore> store_;
  mutable ExpectedFetches expected_;
};

struct StoreWish {
  Duration retry_timeout = seconds(300);
  std::function<void(const std::string&)> on_retry = {};  // ObjectStoreOptions
};

/// Split a URL of an object store behind its bucket: "s3://bucket/" and "a/b.parquet".
/// InvalidArgument if it names no bucket.
struct ObjectUrl {
  std::string root, key;
};
Result<ObjectUrl> split_url(const std::string& url);

/// Open the store of `root`, or return the one that is open; then `wish` has no effect.
Result<std::shared_ptr<const ObjectPlace>> open_place(const std::string& root,
                                                      const StoreWish& wish);

}  // namespace train::data
