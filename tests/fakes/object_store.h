// An object store in memory. MemoryObjects is the server. Each process of a test has its own
// MemoryObjectStore, which counts and records its operations. An operation can fail, lose its
// answer, arrive late, or end the process.
//
//   auto objects = std::make_shared<fakes::MemoryObjects>();
//   fakes::MemoryObjectStore store(objects);
//   store.at(3, Fault::AnswerIsLost);  // the third operation from now is done, and seems to fail
//   run_the_code(store);
//   run_the_next(fakes::MemoryObjectStore(objects));
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/storage/object_store.h"

namespace train::fakes {

class MemoryObjects {
 public:
  // direct access
  void put(const std::string& key, std::string_view bytes);
  void remove(const std::string& key);
  void flip_bit(const std::string& key, std::uint64_t bit);
  void cut(const std::string& key, std::uint64_t bytes);
  std::string get(const std::string& key) const;  // "(no such object)"
  bool has(const std::string& key) const;
  std::vector<std::string> keys(const std::string& prefix = "") const;
  std::map<std::string, std::string> all() const;
  /// Set a hook to call before each operation of any process, without a lock. Set it before they
  /// begin.
  void before_each(std::function<void(const std::string& operation)> hook) {
    hook_ = std::move(hook);
  }
  /// Be a server that ignores the conditions of conditional PUTs.
  void set_unconditional() { unconditional_ = true; }
  /// Deliver the delayed operations now (Fault::ArrivesLate).
  void deliver_late();

  std::shared_ptr<MemoryObjects> copy() const;

 private:
  friend class MemoryObjectStore;
  Result<Unit> put_new(const std::string& key, std::string_view bytes);

  mutable std::mutex mutex_;
  std::map<std::string, std::string> objects_;
  std::vector<std::function<void()>> late_;
  std::function<void(const std::string&)> hook_;
  bool unconditional_ = false;
};

enum class Fault {
  Fails,         // nothing is done
  AnswerIsLost,  // done, but answered with an error
  ArrivesLate,   // answered with an error; done at deliver_late()
  EndsBefore,    // the process ends: this and all later operations fail
  EndsAfter,     // as EndsBefore, but this one is done
};

class MemoryObjectStore : public ObjectStore {
 public:
  explicit MemoryObjectStore(std::shared_ptr<MemoryObjects> objects)
      : objects_(std::move(objects)) {}

  /// Inject a fault into the n-th operation from now (from 1). Only the last request counts.
  void at(std::uint64_t n, Fault fault);
  /// Set a hook to call before each operation without a lock, so that another process may act then.
  void before_each(std::function<void(const std::string& operation)> hook) {
    hook_ = std::move(hook);
  }

  bool ended() const;
  std::uint64_t operations() const;
  /// Return operations such as "put-new journal/000001.jsonl", in the order in which they began.
  std::vector<std::string> trace() const;

  Result<std::string> get(const std::string& key, std::uint64_t bytes_max) override;
  Result<Unit> put(const std::string& key, std::string_view bytes) override;
  Result<Unit> put_new(const std::string& key, std::string_view bytes) override;
  Result<std::unique_ptr<ObjectWriter>> create(const std::string& key) override;
  Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& key) override;
  Result<std::vector<StoredObject>> list(const std::string& folder) override;
  Result<std::vector<ObjectStatus>> find(const std::string& prefix,
                                         std::size_t objects_max) override;
  Result<std::optional<ObjectStatus>> status(const std::string& key) override;
  Result<Unit> read_range(const RangeRead& range) override;
  Result<Unit> remove(const std::string& key) override;

 private:
  friend class MemoryObjectWriter;
  friend class MemoryObjectReader;

  Result<Unit> change(const std::string& operation, std::function<Result<Unit>()> effect);
  Result<Unit> look(const std::string& operation);
  std::optional<Fault> begin(const std::string& operation);
  Error failure(const std::string& operation, Fault fault) const;

  std::shared_ptr<MemoryObjects> objects_;
  std::function<void(const std::string&)> hook_;
  mutable std::mutex mutex_;
  std::uint64_t fault_at_ = 0;
  Fault fault_ = Fault::Fails;
  bool ended_ = false;
  std::vector<std::string> trace_;
};

}  // namespace train::fakes
