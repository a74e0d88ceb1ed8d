#include "tests/fakes/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <random>

namespace train::fakes {

struct UnsyncedWrite {
  std::uint64_t offset = 0;
  std::string bytes;
  bool truncates = false;  // to `offset`
};

struct Node {
  bool is_folder = false;
  std::uint64_t inode = 0;
  bool locked = false;
  bool sync_failed = false;
  // A file: the bytes that programs read, the durable ones, and the writes between the two.
  std::string bytes, durable_bytes;
  std::vector<UnsyncedWrite> unsynced;
  // A folder: the names that programs see, and the durable ones.
  std::map<std::string, NodePtr> names, durable_names;
};

namespace {

void apply_write(std::string& bytes, const UnsyncedWrite& write) {
  if (write.truncates) {
    bytes.resize(write.offset, '\0');
    return;
  }
  if (bytes.size() < write.offset + write.bytes.size())
    bytes.resize(write.offset + write.bytes.size(), '\0');
  bytes.replace(write.offset, write.bytes.size(), write.bytes);
}

/// Apply the part of an unsynced write that reaches the disk.
void apply_part(std::string& bytes, const UnsyncedWrite& write, const Choose& choose,
                std::size_t tear_every) {
  constexpr std::size_t kSector = 512, kSectorsMax = 4;
  enum { Lost, Whole, Torn };
  const std::size_t fate = choose(write.truncates || write.bytes.empty() ? 2 : 3);
  if (fate == Whole) apply_write(bytes, write);
  if (fate != Torn) return;
  const std::size_t size = write.bytes.size();
  const std::size_t cuts = (size - 1) / tear_every;
  const std::size_t first = write.offset / kSector;
  const std::size_t sectors =
      std::min((write.offset + size - 1) / kSector - first + 1, kSectorsMax);
  const std::size_t subsets = (1U << sectors) - 1;  // all subsets but the full one
  const std::size_t how = choose(cuts + subsets);
  if (how < cuts) {
    apply_write(bytes, {write.offset, write.bytes.substr(0, (how + 1) * tear_every), false});
    return;
  }
  bytes.resize(std::max<std::size_t>(bytes.size(), write.offset + size), '\0');
  for (std::size_t i = 0; i < size; ++i) {
    const std::size_t sector = std::min((write.offset + i) / kSector - first, kSectorsMax - 1);
    if (((how - cuts) >> sector & 1) != 0) bytes[write.offset + i] = write.bytes[i];
  }
}

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts;
  std::size_t start = 0;
  while (start < path.size()) {
    const std::size_t slash = std::min(path.find('/', start), path.size());
    if (slash > start) parts.push_back(path.substr(start, slash - start));
    start = slash + 1;
  }
  return parts;
}

std::string name_of(const std::string& path) {
  const auto parts = split(path);
  return parts.empty() ? "" : parts.back();
}

Error fail(int error_number, std::string_view doing, const std::string& path) {
  return system_error(error_number, fmt::format("{} '{}'", doing, path));
}

/// Copy a tree. The caller chooses each node's names and bytes.
template <class Names, class Bytes>
NodePtr copy_tree(const NodePtr& node, const Names& names, const Bytes& bytes) {
  auto copy = std::make_shared<Node>();
  copy->is_folder = node->is_folder;
  copy->inode = node->inode;
  if (!node->is_folder) {
    copy->bytes = bytes(*node);
    copy->durable_bytes = copy->bytes;
  }
  for (const auto& [name, child] : names(*node)) copy->names[name] = copy_tree(child, names, bytes);
  copy->durable_names = copy->names;
  return copy;
}

}  // namespace

class MemoryWritableFile final : public WritableFile {
 public:
  MemoryWritableFile(MemoryFileSystem& fs, NodePtr node, std::string path)
      : fs_(fs), node_(std::move(node)), path_(std::move(path)) {}
  Result<Unit> write(std::string_view bytes) override { return fs_.write_to(*node_, path_, bytes); }
  Result<Unit> sync() override { return fs_.sync_node(*node_, path_); }
  Result<Unit> truncate(std::uint64_t bytes) override {
    return fs_.truncate_node(*node_, path_, bytes);
  }

 private:
  MemoryFileSystem& fs_;
  NodePtr node_;
  std::string path_;
};

class MemoryReadableFile final : public ReadableFile {
 public:
  MemoryReadableFile(MemoryFileSystem& fs, NodePtr node, std::string path)
      : fs_(fs), node_(std::move(node)), path_(std::move(path)) {}
  Result<std::size_t> read(char* buffer, std::size_t size) override {
    if (fs_.power_lost()) return fail(EIO, "reading", path_);
    const std::size_t got =
        std::min(size, node_->bytes.size() - std::min(at_, node_->bytes.size()));
    std::copy_n(node_->bytes.data() + at_, got, buffer);
    at_ += got;
    return got;
  }
  Result<Unit> sync() override { return fs_.sync_node(*node_, path_); }

 private:
  MemoryFileSystem& fs_;
  NodePtr node_;
  std::string path_;
  std::size_t at_ = 0;
};

class MemoryFileLock final : public FileLock {
 public:
  explicit MemoryFileLock(NodePtr node) : node_(std::move(node)) { node_->locked = true; }
  ~MemoryFileLock() override { node_->locked = false; }
  Result<Unit> describe(std::string_view text) override {
    node_->bytes = text;
    node_->durable_bytes = text;
    return Unit{};
  }
  std::uint64_t inode() const override { return node_->inode; }

 private:
  NodePtr node_;
};

bool AllChoices::next() {
  at_ = 0;
  while (!taken_.empty() && ++taken_.back().first == taken_.back().second) taken_.pop_back();
  return !taken_.empty();
}

MemoryFileSystem::MemoryFileSystem() : root_(std::make_shared<Node>()) { root_->is_folder = true; }

void MemoryFileSystem::cut_power_at(std::uint64_t n, std::size_t bytes) {
  cut_at_ = changes_ + n;
  cut_bytes_ = bytes;
}

void MemoryFileSystem::fail_at(std::uint64_t n, int error_number) {
  fail_at_ = changes_ + n;
  fail_errno_ = error_number;
}

MemoryFileSystem::Start MemoryFileSystem::start_change(std::string what) {
  if (power_lost_) return {Outcome::Fail, EIO, 0};
  ++changes_;
  trace_.push_back(std::move(what));
  if (changes_ == cut_at_) {
    power_lost_ = true;
    return cut_bytes_ == kWhole ? Start{Outcome::GoThenLost, EIO, kWhole}
                                : Start{Outcome::Fail, EIO, cut_bytes_};
  }
  if (changes_ == fail_at_) return {Outcome::Fail, fail_errno_, kWhole};
  return {};
}

NodePtr MemoryFileSystem::find(const std::string& path) const {
  NodePtr node = root_;
  for (const std::string& name : split(path)) {
    const auto child = node->names.find(name);
    if (child == node->names.end()) return nullptr;
    node = child->second;
  }
  return node;
}

Result<NodePtr> MemoryFileSystem::folder_of(const std::string& path, std::string_view doing) const {
  NodePtr folder = find(parent_path(path));
  if (folder == nullptr || !folder->is_folder) return fail(ENOENT, doing, path);
  return folder;
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::create(const std::string& path) {
  const Start start = start_change("create " + path);
  if (start.outcome == Outcome::Fail) return fail(start.error_number, "creating", path);
  TRY(NodePtr folder, folder_of(path, "creating"));
  if (folder->names.contains(name_of(path))) return fail(EEXIST, "creating", path);
  auto node = std::make_shared<Node>();
  node->inode = next_inode_++;
  folder->names[name_of(path)] = node;
  note({nullptr, folder, "", name_of(path), node});
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "creating", path);
  return std::make_unique<MemoryWritableFile>(*this, node, path);
}

Result<std::unique_ptr<WritableFile>> MemoryFileSystem::open_to_append(const std::string& path) {
  NodePtr node = find(path);
  if (node == nullptr) return fail(ENOENT, "opening", path);
  return std::make_unique<MemoryWritableFile>(*this, node, path);
}

Result<std::unique_ptr<ReadableFile>> MemoryFileSystem::open_to_read(const std::string& path) {
  NodePtr node = find(path);
  if (power_lost_) return fail(EIO, "opening", path);
  if (node == nullptr) return fail(ENOENT, "opening", path);
  return std::make_unique<MemoryReadableFile>(*this, node, path);
}

Result<std::unique_ptr<FileLock>> MemoryFileSystem::lock(const std::string& path) {
  NodePtr node = find(path);
  if (node == nullptr) {
    TRY(auto file, create(path));
    node = find(path);
  }
  if (node->locked)
    return Error{Errc::Unavailable, fmt::format("'{}' is locked by another process", path)};
  return std::make_unique<MemoryFileLock>(node);
}

Result<Unit> MemoryFileSystem::move(const std::string& from, const std::string& to, bool replace) {
  const Start start = start_change(fmt::format("rename {} {}", from, to));
  if (start.outcome == Outcome::Fail) return fail(start.error_number, "renaming", from);
  TRY(NodePtr from_folder, folder_of(from, "renaming"));
  TRY(NodePtr to_folder, folder_of(to, "renaming"));
  const auto source = from_folder->names.find(name_of(from));
  if (source == from_folder->names.end()) return fail(ENOENT, "renaming", from);
  if (!replace && to_folder->names.contains(name_of(to))) return fail(EEXIST, "renaming to", to);
  NodePtr node = source->second;
  from_folder->names.erase(source);
  to_folder->names[name_of(to)] = node;
  note({from_folder, to_folder, name_of(from), name_of(to), node});
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "renaming", from);
  return Unit{};
}

Result<Unit> MemoryFileSystem::rename(const std::string& from, const std::string& to) {
  return move(from, to, true);
}
Result<Unit> MemoryFileSystem::rename_new(const std::string& from, const std::string& to) {
  return move(from, to, false);
}

Result<Unit> MemoryFileSystem::make_folder(const std::string& path) {
  const Start start = start_change("make-folder " + path);
  if (start.outcome == Outcome::Fail) return fail(start.error_number, "making folder", path);
  TRY(NodePtr folder, folder_of(path, "making folder"));
  if (folder->names.contains(name_of(path))) return fail(EEXIST, "making folder", path);
  auto node = std::make_shared<Node>();
  node->is_folder = true;
  node->inode = next_inode_++;
  folder->names[name_of(path)] = node;
  note({nullptr, folder, "", name_of(path), node});
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "making folder", path);
  return Unit{};
}

Result<Unit> MemoryFileSystem::remove_file(const std::string& path) {
  if (!power_lost_ && find(path) == nullptr) return fail(ENOENT, "removing", path);
  const Start start = start_change("remove " + path);
  if (start.outcome == Outcome::Fail) return fail(start.error_number, "removing", path);
  TRY(NodePtr folder, folder_of(path, "removing"));
  NodePtr node = folder->names[name_of(path)];
  if (node->is_folder) return fail(EISDIR, "removing", path);
  if (space_) *space_ += node->bytes.size();
  folder->names.erase(name_of(path));
  note({folder, nullptr, name_of(path), "", node});
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "removing", path);
  return Unit{};
}

Result<Unit> MemoryFileSystem::remove_folder(const std::string& path) {
  const Start start = start_change("remove-folder " + path);
  if (start.outcome == Outcome::Fail) return fail(start.error_number, "removing folder", path);
  NodePtr node = find(path);
  if (node == nullptr) return fail(ENOENT, "removing folder", path);
  if (!node->names.empty()) return fail(ENOTEMPTY, "removing folder", path);
  TRY(NodePtr folder, folder_of(path, "removing folder"));
  folder->names.erase(name_of(path));
  note({folder, nullptr, name_of(path), "", node});
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "removing folder", path);
  return Unit{};
}

void MemoryFileSystem::apply(const PendingChange& change) {
  // Another change may have become durable first and overtaken half of this one; then that half
  // does nothing.
  if (change.from_folder != nullptr) {
    const auto old = change.from_folder->durable_names.find(change.from);
    if (old != change.from_folder->durable_names.end() && old->second == change.node)
      change.from_folder->durable_names.erase(old);
  }
  if (change.to_folder != nullptr) change.to_folder->durable_names[change.to] = change.node;
}

Result<Unit> MemoryFileSystem::sync_folder(const std::string& path) {
  const Start start = start_change("sync-folder " + path);
  NodePtr folder = find(path);
  const auto belongs = [&](const PendingChange& change) {
    return change.to_folder == folder ||
           (change.to_folder == nullptr && change.from_folder == folder);
  };
  if (start.outcome == Outcome::Fail) {
    if (!power_lost_) std::erase_if(pending_, belongs);
    return fail(start.error_number, "syncing folder", path);
  }
  if (folder == nullptr) return fail(ENOENT, "syncing folder", path);
  if (skip_folder_syncs_) return Unit{};
  for (const PendingChange& change : pending_)
    if (belongs(change)) apply(change);
  std::erase_if(pending_, belongs);
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "syncing folder", path);
  return Unit{};
}

Result<Unit> MemoryFileSystem::write_to(Node& node, const std::string& path,
                                        std::string_view bytes) {
  const Start start = start_change(fmt::format("write {} {}", path, bytes.size()));
  std::size_t count = std::min(start.bytes, bytes.size());
  int error_number = start.outcome == Outcome::Go ? 0 : start.error_number;
  if (start.outcome == Outcome::Fail && start.bytes == kWhole) count = bytes.size() / 2;
  if (space_ && count > *space_) {
    count = *space_;
    error_number = ENOSPC;
  }
  if (space_) *space_ -= count;
  if (count > 0) {
    node.unsynced.push_back({node.bytes.size(), std::string(bytes.substr(0, count)), false});
    apply_write(node.bytes, node.unsynced.back());
  }
  if (error_number != 0) return fail(error_number, "writing", path);
  return Unit{};
}

Result<Unit> MemoryFileSystem::truncate_node(Node& node, const std::string& path,
                                             std::uint64_t bytes) {
  const Start start = start_change(fmt::format("truncate {} {}", path, bytes));
  if (start.outcome == Outcome::Fail) return fail(start.error_number, "truncating", path);
  if (space_ && bytes < node.bytes.size()) *space_ += node.bytes.size() - bytes;
  node.unsynced.push_back({bytes, "", true});
  apply_write(node.bytes, node.unsynced.back());
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "truncating", path);
  return Unit{};
}

Result<Unit> MemoryFileSystem::sync_node(Node& node, const std::string& path) {
  const Start start = start_change("sync " + path);
  if (node.sync_failed) ++syncs_after_failure_;
  if (start.outcome == Outcome::Fail) {
    if (!power_lost_) {
      node.sync_failed = true;
      node.unsynced.clear();  // programs still read the bytes, but they never reach the disk
    }
    return fail(start.error_number, "syncing", path);
  }
  if (skip_file_syncs_) return Unit{};
  for (const UnsyncedWrite& write : node.unsynced) apply_write(node.durable_bytes, write);
  node.unsynced.clear();
  if (start.outcome == Outcome::GoThenLost) return fail(EIO, "syncing", path);
  return Unit{};
}

Result<FileStatus> MemoryFileSystem::status(const std::string& path) {
  if (power_lost_) return fail(EIO, "reading the status of", path);
  const NodePtr node = find(path);
  if (node == nullptr) return fail(ENOENT, "reading the status of", path);
  return FileStatus{node->is_folder ? FileKind::Folder : FileKind::File, node->bytes.size(),
                    node->inode};
}

Result<std::vector<FolderEntry>> MemoryFileSystem::list(const std::string& path) {
  if (power_lost_) return fail(EIO, "listing", path);
  const NodePtr node = find(path);
  if (node == nullptr) return fail(ENOENT, "listing", path);
  std::vector<FolderEntry> entries;
  for (const auto& [name, child] : node->names)
    entries.push_back({name, child->is_folder ? FileKind::Folder : FileKind::File});
  return entries;
}

Result<std::uint64_t> MemoryFileSystem::free_bytes(const std::string&) {
  return space_.value_or(1ULL << 40);
}
Result<bool> MemoryFileSystem::same_file_system(const std::string&, const std::string&) {
  return one_file_system_;
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::after_kill() const {
  auto after = std::make_unique<MemoryFileSystem>();
  after->root_ = copy_tree(
      root_, [](const Node& node) { return node.names; },
      [](const Node& node) { return node.bytes; });
  after->next_inode_ = next_inode_;
  return after;
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::after_power_cut(std::uint64_t seed) const {
  std::mt19937_64 random(seed);
  return after_power_cut([&](std::size_t options) { return seed == 0 ? 0 : random() % options; });
}

std::unique_ptr<MemoryFileSystem> MemoryFileSystem::after_power_cut(const Choose& choose,
                                                                    std::size_t tear_every) const {
  // Names first: apply a subset of the changes, in order, to copies of the durable names.
  std::map<const Node*, std::map<std::string, NodePtr>> names;
  const auto names_in = [&](const NodePtr& folder) -> std::map<std::string, NodePtr>& {
    return names.try_emplace(folder.get(), folder->durable_names).first->second;
  };
  for (const PendingChange& change : pending_) {
    if (choose(2) == 0) continue;
    if (change.from_folder != nullptr) {
      auto& old = names_in(change.from_folder);
      if (const auto found = old.find(change.from);
          found != old.end() && found->second == change.node)
        old.erase(found);
    }
    if (change.to_folder != nullptr) names_in(change.to_folder)[change.to] = change.node;
  }
  const auto surviving_names = [&](const Node& node) {
    const auto found = names.find(&node);
    return found == names.end() ? node.durable_names : found->second;
  };
  const auto surviving_bytes = [&](const Node& node) {
    std::string bytes = node.durable_bytes;
    for (const UnsyncedWrite& write : node.unsynced) apply_part(bytes, write, choose, tear_every);
    return bytes;
  };
  auto after = std::make_unique<MemoryFileSystem>();
  after->root_ = copy_tree(root_, surviving_names, surviving_bytes);
  after->next_inode_ = next_inode_;
  return after;
}

void MemoryFileSystem::put(const std::string& path, std::string_view bytes) {
  NodePtr node = root_;
  const auto parts = split(path);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    NodePtr& child = node->names[parts[i]];
    if (child == nullptr) {
      child = std::make_shared<Node>();
      child->inode = next_inode_++;
      child->is_folder = i + 1 < parts.size() || path.ends_with('/');
    }
    node->durable_names[parts[i]] = child;
    node = child;
  }
  node->bytes = bytes;
  node->durable_bytes = bytes;
}

std::string MemoryFileSystem::get(const std::string& path) const {
  const NodePtr node = find(path);
  return node == nullptr ? "(no such file)" : node->bytes;
}

void MemoryFileSystem::flip_bit(const std::string& path, std::uint64_t bit) {
  const NodePtr node = find(path);
  node->bytes.at(bit / 8) = static_cast<char>(node->bytes.at(bit / 8) ^ (1 << (bit % 8)));
}

void MemoryFileSystem::cut_file(const std::string& path, std::uint64_t bytes) {
  find(path)->bytes.resize(bytes);
}

std::vector<std::string> MemoryFileSystem::tree(const std::string& path) const {
  std::vector<std::string> paths;
  const NodePtr node = find(path);
  if (node == nullptr) return paths;
  for (const auto& [name, child] : node->names) {
    const std::string inner = join_path(path, name);
    paths.push_back(child->is_folder ? inner + "/" : inner);
    for (std::string& below : tree(inner)) paths.push_back(std::move(below));
  }
  return paths;
}

}  // namespace train::fakes
