// The narrow interface to storage that keeps whole objects under keys, like S3: nothing is renamed,
// appended to or locked. Between two writers, only put_new() can be relied on. remote/ is the real
// implementation, a module that is loaded on demand (open_object_store); tests/fakes/object_store.h
// keeps a map.
//
// Keys are relative to the place that was opened, with '/' between components. All calls block. If
// the other side is slow, throttles or does not answer, they try again with growing pauses until
// `retry_timeout`; then the error is Unavailable or Timeout. Any thread may call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

/// What a reader of data must know of an object.
struct ObjectStatus {
  std::string key;
  std::uint64_t bytes = 0;
  std::string version = {};  // another one for other bytes: an ETag, a generation, a time
  bool operator==(const ObjectStatus&) const = default;
};

/// Bytes [offset, offset + bytes) of an object, which has them all.
struct RangeRead {
  std::string key;
  std::string version = {};  // as listed; empty: any
  std::uint64_t offset = 0;
  char* to = nullptr;
  std::size_t bytes = 0;
  std::function<bool()> cancelled = {};  // asked now and then; empty: never
};

/// Writes an object to the store in pieces. If it is destroyed before close() has succeeded, it
/// leaves nothing in the store. It must not be used once the store is gone.
class ObjectWriter {
 public:
  virtual ~ObjectWriter() = default;
  virtual Result<Unit> write(std::string_view bytes) = 0;
  /// Finish the object. When this returns, the object exists, complete and durable.
  virtual Result<Unit> close() = 0;
};

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  /// Read an object. NotFound if there is none; ResourceExhausted if it is larger than `bytes_max`.
  virtual Result<std::string> get(const std::string& key, std::uint64_t bytes_max) = 0;
  /// Put an object, replacing any earlier one.
  virtual Result<Unit> put(const std::string& key, std::string_view bytes) = 0;
  /// Put a new object. AlreadyExists, and nothing changes, if the key has an object with other
  /// bytes. Success if it has the same bytes: that is our own object, from a try whose answer was
  /// lost.
  virtual Result<Unit> put_new(const std::string& key, std::string_view bytes) = 0;
  virtual Result<std::unique_ptr<ObjectWriter>> create(const std::string& key) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& key) = 0;
  /// Return all objects whose key begins with `folder`/, sorted by key, including everything that
  /// was written before the call. Empty if there are none.
  virtual Result<std::vector<StoredObject>> list(const std::string& folder) = 0;
  /// Return the objects whose key begins with `prefix`, which may end within a name, sorted by key.
  /// ResourceExhausted if there are more than `objects_max`.
  virtual Result<std::vector<ObjectStatus>> find(const std::string& prefix,
                                                 std::size_t objects_max) = 0;
  /// Return an object's size and version; nothing if there is no such object.
  virtual Result<std::optional<ObjectStatus>> status(const std::string& key) = 0;
  /// Read a range completely. NotFound, or Corrupt if the object has another version or is shorter.
  /// Cancelled soon after `cancelled` returns true.
  virtual Result<Unit> read_range(const RangeRead& range) = 0;
  /// Remove an object. A missing object is no error.
  virtual Result<Unit> remove(const std::string& key) = 0;
  /// Drop unfinished objects of killed writers below `folder`/, if `which` selects the key: S3
  /// keeps the pieces, and charges for them, for ever. Tries once. Stores that drop them
  /// automatically do nothing.
  virtual Result<Unit> drop_unfinished(
      const std::string& /*folder*/, const std::function<bool(const std::string& key)>& /*which*/) {
    return Unit{};
  }
};

struct ObjectStoreOptions {
  /// The AWS_…, GOOGLE_…, HADOOP_… variables of the user who submitted the run. What is missing is
  /// looked up as by the store's own tools (profile, role of the machine).
  std::map<std::string, std::string> environment = {};
  Duration retry_timeout = seconds(300);
  /// Called for each failed try: "503 Slow Down; trying again". Called on the caller's thread or
  /// one of the store's threads; one call at a time, and none after the store is gone.
  std::function<void(const std::string&)> on_retry = {};
};

/// Return the variables of `environment` that give access to stores; they include secrets.
std::map<std::string, std::string> store_environment(
    const std::map<std::string, std::string>& environment);

/// Open the store below `url`. The first call loads libtrainrun_storage.so, and Arrow with it.
/// InvalidArgument: no such scheme, no bucket. Unavailable: the module cannot be loaded. Some kinds
/// of stores connect immediately, and return their own errors.
Result<std::shared_ptr<ObjectStore>> open_object_store(const std::string& url,
                                                       const ObjectStoreOptions& options);
/// Close all stores before a program returns from main; a program that leaves by _exit() need not
/// call this. No store may be used afterwards.
void close_object_stores();

}  // namespace train
