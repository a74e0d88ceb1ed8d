// The narrow seam to storage that keeps whole objects under keys, as S3 does: nothing is renamed,
// appended to or locked. put_new() is all that two writers can rely on. remote/ is the real one, a
// module that is loaded on demand (open_object_store); tests/fakes/object_store.h keeps a map.
//
// Keys are relative to the place that was opened, with '/' between components. All calls block, and
// try again with growing pauses while the other side is slow, throttles or does not answer, for as
// long as `patience` allows; then the error is Unavailable or Timeout. Any thread may call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/store_url.h"
#include "lib/base/time.h"
#include "lib/storage/file_system.h"

namespace train {

struct StoredObject {
  std::string key;
  std::uint64_t bytes = 0;
  bool operator==(const StoredObject&) const = default;
};

/// An object on its way into the store, in pieces. Destroyed before close() has worked, it leaves
/// nothing. Not to be used once its store is gone.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual Result<Unit> write(std::string_view bytes) = 0;
  /// When it returns, the object is there, whole and durable.
  virtual Result<Unit> close() = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// NotFound where there is none; ResourceExhausted when it is larger than `bytes_max`.
  virtual Result<std::string> get(const std::string& key, std::uint64_t bytes_max) = 0;
  /// Replaces what was there.
  virtual Result<Unit> put(const std::string& key, std::string_view bytes) = 0;
  /// AlreadyExists, and nothing is changed, when the key is taken with other bytes. With the same
  /// ones it is our own, of a try whose answer was lost.
  virtual Result<Unit> put_new(const std::string& key, std::string_view bytes) = 0;
  virtual Result<std::unique_ptr<ObjectWriter>> create(const std::string& key) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& key) = 0;
  /// All objects whose key begins with `folder`/, sorted by key. What was written before the call
  /// is in it. An empty list where there are none.
  virtual Result<std::vector<StoredObject>> list(const std::string& folder) = 0;
  /// No error for one that is not there.
  virtual Result<Unit> remove(const std::string& key) = 0;
  /// Drop what writers that were killed have begun below `folder`/ and never closed, of the keys
  /// that `which` says: S3 keeps, and bills, the pieces for ever. Tried once. Stores that forget by
  /// themselves have nothing to do.
  virtual Result<Unit> drop_unfinished(
      const std::string& /*folder*/, const std::function<bool(const std::string& key)>& /*which*/) {
    return Unit{};
  }
};

struct ObjectStoreOptions {
  /// AWS_…, GOOGLE_…, HADOOP_… of whoever submitted the run; what is not in it is looked for as the
  /// store's own tools do (profile, role of the machine).
  std::map<std::string, std::string> environment = {};
  Duration patience = seconds(300);
  /// Told of each try that failed: "503 Slow Down; trying again". On the caller's thread, or one of
  /// the store's own; one at a time, and not after the store is gone.
  std::function<void(const std::string&)> on_retry = {};
};

/// Of the variables of `environment`, those by which stores are reached; they hold secrets.
std::map<std::string, std::string> store_environment(
    const std::map<std::string, std::string>& environment);

/// Open what is below `url`. Loads libtrainrun_storage.so, which brings Arrow with it, at the first
/// call; nothing is asked of the store yet. InvalidArgument: no such scheme, no bucket.
/// Unavailable: the module cannot be loaded.
Result<std::shared_ptr<ObjectStore>> open_object_store(const std::string& url,
                                                       const ObjectStoreOptions& options);
/// Before a program returns from main; one that leaves by _exit() need not. No store is used after
/// it.
void close_object_stores();

}  // namespace train
