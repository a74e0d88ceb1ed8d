#include "lib/storage/object_files.h"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <set>

#include "lib/storage/object_checkpoint_store.h"

namespace train {
namespace {

Error cannot(std::string_view what, const std::string& path) {
  return Error{Errc::InvalidArgument, fmt::format("an object store cannot {} '{}'", what, path)};
}

/// Return the number if the key is the folder of a checkpoint.
std::optional<CheckpointNumber> checkpoint_of(const std::string& key) {
  const std::string folder = std::string(kObjectCheckpoints) + "/";
  if (!key.starts_with(folder)) return std::nullopt;
  return parse_checkpoint_name(std::string_view(key).substr(folder.size()));
}

/// A file that stays in memory until it is synced.
class ObjectFile final : public WritableFile {
 public:
  ObjectFile(std::shared_ptr<ObjectStore> store, std::string key)
      : store_(std::move(store)), key_(std::move(key)) {}
  Result<Unit> write(std::string_view bytes) override {
    text_ += bytes;
    return Unit{};
  }
  Result<Unit> sync() override { return store_->put(key_, text_); }
  Result<Unit> truncate(std::uint64_t bytes) override {
    text_.resize(bytes);
    return Unit{};
  }

 private:
  std::shared_ptr<ObjectStore> store_;
  const std::string key_;
  std::string text_;
};

}  // namespace

std::string ObjectFiles::key_of(const std::string& path) const {
  if (path == url_) return "";
  return path.starts_with(url_ + "/") ? path.substr(url_.size() + 1) : path;
}

/// Return the key of a file: its path, unless a manifest tells that the file is elsewhere.
Result<std::string> ObjectFiles::location_of(const std::string& path) {
  const std::string key = key_of(path);
  const std::string folder = std::string(kObjectCheckpoints) + "/";
  if (!key.starts_with(folder)) return key;
  const std::size_t slash = key.find('/', folder.size());
  if (slash == std::string::npos) return key;
  const std::string checkpoint = key.substr(0, slash), file = key.substr(slash + 1);
  if (!parse_checkpoint_name(checkpoint.substr(folder.size())) || file.starts_with('.')) return key;
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = locations_.find(checkpoint); known != locations_.end())
      if (const auto location = known->second.find(file); location != known->second.end())
        return location->second;
  }
  TRY(const Manifest manifest, read_manifest(*this, join_path(url_, checkpoint)));
  std::map<std::string, std::string> locations;
  for (const ManifestFile& one : manifest.files)
    locations[one.path] =
        one.at.empty() ? join_path(checkpoint, one.path) : join_path(folder + one.at, one.path);
  const auto location = locations.find(file);
  const std::string found = location == locations.end() ? key : location->second;
  const std::lock_guard lock(mutex_);
  locations_[checkpoint] = std::move(locations);
  return found;
}

/// List the current objects below `folder`, and update the known sizes.
Result<std::vector<StoredObject>> ObjectFiles::list_anew(const std::string& folder) {
  TRY(auto objects, store_->list(folder));
  const std::lock_guard lock(mutex_);
  std::erase_if(bytes_, [&](const auto& known) {
    return folder.empty() || known.first.starts_with(folder + "/");
  });
  for (const StoredObject& object : objects) bytes_[object.key] = object.bytes;
  return objects;
}

Result<std::uint64_t> ObjectFiles::bytes_of(const std::string& key) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = bytes_.find(key); known != bytes_.end()) return known->second;
  }
  const std::size_t slash = key.rfind('/');
  TRY_VOID(list_anew(slash == std::string::npos ? "" : key.substr(0, slash)));
  const std::lock_guard lock(mutex_);
  const auto found = bytes_.find(key);
  if (found == bytes_.end())
    return Error{Errc::NotFound, fmt::format("there is no object '{}'", join_path(url_, key))};
  return found->second;
}

Result<bool> ObjectFiles::is_closed(const StoredObject& manifest) {
  if (manifest.bytes > kClosedBytesMax) return false;
  const auto text = store_->get(manifest.key, kClosedBytesMax);
  if (text.has_error() && text.error().code == Errc::NotFound) return true;  // removed just now
  if (text.has_error()) return text.error();
  return is_closed_text(*text);
}

Result<std::unique_ptr<WritableFile>> ObjectFiles::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  bytes_.erase(key_of(path));
  return std::make_unique<ObjectFile>(store_, key_of(path));
}

Result<std::unique_ptr<WritableFile>> ObjectFiles::open_to_append(const std::string& path) {
  return cannot("append to", path);
}

Result<std::unique_ptr<ReadableFile>> ObjectFiles::open_to_read(const std::string& path) {
  TRY(const std::string key, location_of(path));
  return store_->open_to_read(key);
}

Result<std::unique_ptr<FileLock>> ObjectFiles::lock(const std::string& path) {
  return cannot("lock", path);
}

// Put the bytes under the new name. Only for small files, such as those of write_small_file().
Result<Unit> ObjectFiles::rename(const std::string& from, const std::string& to) {
  TRY(const std::string text, store_->get(key_of(from), kManifestBytesMax));
  TRY_VOID(store_->put(key_of(to), text));
  {
    const std::lock_guard lock(mutex_);
    bytes_[key_of(to)] = text.size();
    bytes_.erase(key_of(from));
  }
  return store_->remove(key_of(from));
}

Result<Unit> ObjectFiles::rename_new(const std::string& from, const std::string& to) {
  return cannot("rename '" + from + "' to", to);
}

Result<Unit> ObjectFiles::make_folder(const std::string&) { return Unit{}; }
Result<Unit> ObjectFiles::remove_file(const std::string& path) {
  {
    const std::lock_guard lock(mutex_);
    bytes_.erase(key_of(path));
  }
  return store_->remove(key_of(path));
}
Result<Unit> ObjectFiles::remove_folder(const std::string&) { return Unit{}; }
Result<Unit> ObjectFiles::sync_folder(const std::string&) { return Unit{}; }

Result<FileStatus> ObjectFiles::status(const std::string& path) {
  TRY(const std::string key, location_of(path));
  const auto number = checkpoint_of(key);
  if (!number) {
    auto bytes = bytes_of(key);
    if (!bytes.has_error()) return FileStatus{FileKind::File, *bytes, 0};
    if (bytes.error().code != Errc::NotFound) return bytes.error();
  }
  TRY(const auto below, list_anew(key));
  bool there = !below.empty();
  if (number) {  // it exists if its manifest does
    there = false;
    for (const StoredObject& object : below) {
      if (object.key != manifest_key(*number)) continue;
      TRY(const bool closed, is_closed(object));
      there = !closed;
    }
  }
  if (there) return FileStatus{FileKind::Folder, 0, 0};
  const std::lock_guard lock(mutex_);
  locations_.erase(key);
  return Error{Errc::NotFound, fmt::format("'{}' does not exist", path)};
}

Result<std::vector<FolderEntry>> ObjectFiles::list(const std::string& path) {
  const std::string key = key_of(path);
  TRY(const auto objects, list_anew(key));
  if (objects.empty()) return Error{Errc::NotFound, fmt::format("nothing is in '{}'", path)};
  const std::size_t begin = key.empty() ? 0 : key.size() + 1;
  std::map<std::string, FileKind> entries;
  for (const StoredObject& object : objects) {
    const std::size_t slash = object.key.find('/', begin);
    const std::string name = object.key.substr(begin, slash - begin);
    if (const auto number = checkpoint_of(join_path(key, name))) {
      if (object.key != manifest_key(*number)) continue;
      TRY(const bool closed, is_closed(object));
      if (closed) continue;
    }
    entries.emplace(name, slash == std::string::npos ? FileKind::File : FileKind::Folder);
  }
  std::vector<FolderEntry> listed;
  for (auto& [name, kind] : entries) listed.push_back({name, kind});
  return listed;
}

Result<std::uint64_t> ObjectFiles::free_bytes(const std::string&) {
  return std::numeric_limits<std::uint64_t>::max();
}

Result<bool> ObjectFiles::same_file_system(const std::string&, const std::string&) { return false; }

}  // namespace train
