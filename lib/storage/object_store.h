// The narrow seam to storage that keeps whole objects under keys, as S3 does: nothing is renamed,
// appended to or locked. Two writers can rely on put_new() only. remote/ is the real
// implementation, a module that is loaded on demand (open_object_store); tests/fakes/object_store.h
// keeps a map.
//
// Keys are relative to the place that was opened, with '/' between components. All calls block.
// While the other side is slow, throttles or does not answer, they try again with growing pauses
// for as long as `retry_timeout` allows; then the error is Unavailable or Timeout. Any thread may
// call.
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

/// An object on its way into the store, in pieces. If it is destroyed before close() has worked, it
/// leaves nothing. It must not be used once its store is gone.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual Result<Unit> write(std::string_view bytes) = 0;
  /// Finish the object. When it returns, the object is there, whole and durable.
  virtual Result<Unit> close() = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Read an object. NotFound if there is none; ResourceExhausted when it is larger than
  /// `bytes_max`.
  virtual Result<std::string> get(const std::string& key, std::uint64_t bytes_max) = 0;
  /// Put an object, replacing what was there.
  virtual Result<Unit> put(const std::string& key, std::string_view bytes) = 0;
  /// Put a new object. AlreadyExists, and nothing is changed, when the key is taken with other
  /// bytes. If it is taken with the same bytes, the object is our own, from a try whose answer was
  /// lost.
  virtual Result<Unit> put_new(const std::string& key, std::string_view bytes) = 0;
  virtual Result<std::unique_ptr<ObjectWriter>> create(const std::string& key) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& key) = 0;
  /// Return all objects whose key begins with `folder`/, sorted by key. The list has all that was
  /// written before the call. It is empty if there are no such objects.
  virtual Result<std::vector<StoredObject>> list(const std::string& folder) = 0;
  /// Remove an object. It is no error if it is missing.
  virtual Result<Unit> remove(const std::string& key) = 0;
  /// Drop the unfinished objects of killed writers below `folder`/, for those keys that `which`
  /// selects: S3 keeps, and bills, the pieces for ever. Tried once. Stores that drop them by
  /// themselves have nothing to do.
  virtual Result<Unit> drop_unfinished(
      const std::string& /*folder*/, const std::function<bool(const std::string& key)>& /*which*/) {
    return Unit{};
  }
};

struct ObjectStoreOptions {
  /// AWS_…, GOOGLE_…, HADOOP_… variables of whoever submitted the run. What is not in it is looked
  /// up as the store's own tools do (profile, role of the machine).
  std::map<std::string, std::string> environment = {};
  Duration retry_timeout = seconds(300);
  /// Called for each try that failed: "503 Slow Down; trying again". Called on the caller's thread,
  /// or on one of the store's own; one call at a time, and none after the store is gone.
  std::function<void(const std::string&)> on_retry = {};
};

/// Return those variables of `environment` by which stores are reached; they hold secrets.
std::map<std::string, std::string> store_environment(
    const std::map<std::string, std::string>& environment);

/// Open what is below `url`. The first call loads libtrainrun_storage.so, which brings Arrow with
/// it; nothing is asked of the store yet. InvalidArgument: no such scheme, no bucket. Unavailable:
/// the module cannot be loaded.
Result<std::shared_ptr<ObjectStore>> open_object_store(const std::string& url,
                                                       const ObjectStoreOptions& options);
/// Close all stores, before a program returns from main; a program that leaves by _exit() need not
/// call it. No store may be used afterwards.
void close_object_stores();

}  // namespace train
