#include "tests/fakes/object_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace train::fakes {

void MemoryObjects::put(const std::string& key, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  objects_[key] = bytes;
}

void MemoryObjects::remove(const std::string& key) {
  const std::lock_guard lock(mutex_);
  objects_.erase(key);
}

void MemoryObjects::flip_bit(const std::string& key, std::uint64_t bit) {
  const std::lock_guard lock(mutex_);
  char& byte = objects_.at(key).at(bit / 8);
  byte = static_cast<char>(byte ^ (1 << (bit % 8)));
}

void MemoryObjects::cut(const std::string& key, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  objects_.at(key).resize(bytes);
}

std::string MemoryObjects::get(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? "(no such object)" : found->second;
}

bool MemoryObjects::has(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  return objects_.contains(key);
}

std::vector<std::string> MemoryObjects::keys(const std::string& prefix) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> keys;
  for (const auto& [key, bytes] : objects_)
    if (key.starts_with(prefix)) keys.push_back(key);
  return keys;
}

std::map<std::string, std::string> MemoryObjects::all() const {
  const std::lock_guard lock(mutex_);
  return objects_;
}

void MemoryObjects::deliver_late() {
  std::vector<std::function<void()>> late;
  {
    const std::lock_guard lock(mutex_);
    late.swap(late_);
  }
  for (const auto& arrive : late) arrive();
}

std::shared_ptr<MemoryObjects> MemoryObjects::copy() const {
  auto copy = std::make_shared<MemoryObjects>();
  copy->objects_ = all();
  return copy;
}

Result<Unit> MemoryObjects::put_new(const std::string& key, std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (unconditional_) objects_.erase(key);
  const auto [there, is_new] = objects_.try_emplace(key, bytes);
  if (is_new || there->second == bytes) return Unit{};
  return Error{Errc::AlreadyExists, fmt::format("PUT '{}': 412", key)};
}

class MemoryObjectWriter final : public ObjectWriter {
 public:
  MemoryObjectWriter(MemoryObjectStore& store, std::string key)
      : store_(store), key_(std::move(key)) {}
  Result<Unit> write(std::string_view bytes) override {
    TRY_VOID(store_.look(fmt::format("write {} {}", key_, bytes.size())));
    text_ += bytes;
    return Unit{};
  }
  Result<Unit> close() override {
    return store_.change(
        fmt::format("close {}", key_),
        [objects = store_.objects_.get(), key = key_, text = text_]() -> Result<Unit> {
          objects->put(key, text);
          return Unit{};
        });
  }

 private:
  MemoryObjectStore& store_;
  const std::string key_;
  std::string text_;
};

class MemoryObjectReader final : public ReadableFile {
 public:
  MemoryObjectReader(MemoryObjectStore& store, std::string key, std::string text)
      : store_(store), key_(std::move(key)), text_(std::move(text)) {}
  Result<std::size_t> read(char* buffer, std::size_t size) override {
    if (store_.ended()) return store_.failure("read " + key_, Fault::EndsBefore);
    const std::size_t got = std::min(size, text_.size() - at_);
    std::copy_n(text_.data() + at_, got, buffer);
    at_ += got;
    return got;
  }
  Result<Unit> sync() override { return Unit{}; }

 private:
  MemoryObjectStore& store_;
  const std::string key_, text_;
  std::size_t at_ = 0;
};

void MemoryObjectStore::at(std::uint64_t n, Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_at_ = trace_.size() + n;
  fault_ = fault;
}

bool MemoryObjectStore::ended() const {
  const std::lock_guard lock(mutex_);
  return ended_;
}

std::uint64_t MemoryObjectStore::operations() const {
  const std::lock_guard lock(mutex_);
  return trace_.size();
}

std::vector<std::string> MemoryObjectStore::trace() const {
  const std::lock_guard lock(mutex_);
  return trace_;
}

Error MemoryObjectStore::failure(const std::string& operation, Fault fault) const {
  const bool ends = fault == Fault::EndsBefore || fault == Fault::EndsAfter;
  return Error{Errc::Unavailable,
               fmt::format("{}: {}", operation, ends ? "this process has ended" : "no answer")};
}

std::optional<Fault> MemoryObjectStore::begin(const std::string& operation) {
  if (hook_ && !ended()) hook_(operation);
  if (objects_->hook_) objects_->hook_(operation);
  const std::lock_guard lock(mutex_);
  if (ended_) return Fault::EndsBefore;
  trace_.push_back(operation);
  if (trace_.size() != fault_at_) return std::nullopt;
  ended_ = fault_ == Fault::EndsBefore || fault_ == Fault::EndsAfter;
  return fault_;
}

Result<Unit> MemoryObjectStore::change(const std::string& operation,
                                       std::function<Result<Unit>()> effect) {
  const auto fault = begin(operation);
  if (!fault) return effect();
  if (*fault == Fault::AnswerIsLost || *fault == Fault::EndsAfter) (void)effect();
  if (*fault == Fault::ArrivesLate) {
    const std::lock_guard lock(objects_->mutex_);
    objects_->late_.push_back([effect = std::move(effect)] { (void)effect(); });
  }
  return failure(operation, *fault);
}

Result<Unit> MemoryObjectStore::look(const std::string& operation) {
  const auto fault = begin(operation);
  if (fault) return failure(operation, *fault);
  return Unit{};
}

Result<std::string> MemoryObjectStore::get(const std::string& key, std::uint64_t bytes_max) {
  TRY_VOID(look("get " + key));
  const std::lock_guard lock(objects_->mutex_);
  const auto found = objects_->objects_.find(key);
  if (found == objects_->objects_.end())
    return Error{Errc::NotFound, fmt::format("GET '{}': 404", key)};
  if (found->second.size() > bytes_max)
    return Error{Errc::ResourceExhausted,
                 fmt::format("'{}' is larger than {} bytes", key, bytes_max)};
  return found->second;
}

Result<Unit> MemoryObjectStore::put(const std::string& key, std::string_view bytes) {
  return change("put " + key,
                [objects = objects_.get(), key, text = std::string(bytes)]() -> Result<Unit> {
                  objects->put(key, text);
                  return Unit{};
                });
}

Result<Unit> MemoryObjectStore::put_new(const std::string& key, std::string_view bytes) {
  return change("put-new " + key, [objects = objects_.get(), key, text = std::string(bytes)] {
    return objects->put_new(key, text);
  });
}

Result<std::unique_ptr<ObjectWriter>> MemoryObjectStore::create(const std::string& key) {
  TRY_VOID(look("create " + key));
  return std::make_unique<MemoryObjectWriter>(*this, key);
}

Result<std::unique_ptr<ReadableFile>> MemoryObjectStore::open_to_read(const std::string& key) {
  TRY(std::string text, get(key, std::numeric_limits<std::uint64_t>::max()));
  return std::make_unique<MemoryObjectReader>(*this, key, std::move(text));
}

Result<std::vector<StoredObject>> MemoryObjectStore::list(const std::string& folder) {
  TRY_VOID(look("list " + folder));
  std::vector<StoredObject> listed;
  for (const auto& [key, text] : objects_->all())
    if (folder.empty() || key.starts_with(folder + "/")) listed.push_back({key, text.size()});
  return listed;
}

namespace {

ObjectStatus status_of(const std::string& key, const std::string& text) {
  return {key, text.size(), fmt::format("v{:x}", std::hash<std::string>()(text))};
}

}  // namespace

Result<std::vector<ObjectStatus>> MemoryObjectStore::find(const std::string& prefix,
                                                          std::size_t objects_max) {
  TRY_VOID(look("find " + prefix));
  std::vector<ObjectStatus> found;
  for (const auto& [key, text] : objects_->all())
    if (key.starts_with(prefix)) found.push_back(status_of(key, text));
  if (found.size() > objects_max)
    return Error{Errc::ResourceExhausted, fmt::format("more than {} objects", objects_max)};
  return found;
}

Result<std::optional<ObjectStatus>> MemoryObjectStore::status(const std::string& key) {
  TRY_VOID(look("status " + key));
  if (!objects_->has(key)) return std::optional<ObjectStatus>();
  return std::optional(status_of(key, objects_->get(key)));
}

Result<Unit> MemoryObjectStore::read_range(const RangeRead& range) {
  TRY_VOID(look(fmt::format("read {} {}+{}", range.key, range.offset, range.bytes)));
  if (range.cancelled && range.cancelled()) return Error{Errc::Cancelled, "given up"};
  const std::lock_guard lock(objects_->mutex_);
  const auto found = objects_->objects_.find(range.key);
  if (found == objects_->objects_.end())
    return Error{Errc::NotFound, fmt::format("GET '{}': 404", range.key)};
  const std::string& text = found->second;
  if (!range.version.empty() && range.version != status_of(range.key, text).version)
    return Error{Errc::Corrupt,
                 fmt::format("'{}' is not what it was when it was listed", range.key)};
  if (range.offset + range.bytes > text.size())
    return Error{Errc::Corrupt, fmt::format("'{}' is too short", range.key)};
  text.copy(range.to, range.bytes, range.offset);
  return Unit{};
}

Result<Unit> MemoryObjectStore::remove(const std::string& key) {
  return change("remove " + key, [objects = objects_.get(), key]() -> Result<Unit> {
    objects->remove(key);
    return Unit{};
  });
}

}  // namespace train::fakes
