// A FileSystem in memory that can lose power. It keeps two states: what programs see, and what is
// durable. At a power cut, a legal subset of the difference survives, chosen by a seed: unsynced
// writes (torn at any byte), and names created, moved or removed in folders that nobody has synced
// since. It counts operations that change something, so that a test can cut the power at each, or
// let each fail.
//
//   MemoryFileSystem disk;
//   disk.cut_power_at(17, 3);  // the 17th change: a write gets 3 bytes in, then everything fails
//   run_the_code(disk);
//   auto after = disk.after_power_cut(seed);  // what a rebooted machine finds
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/storage/file_system.h"

namespace train::fakes {

struct Node;
using NodePtr =
    std::shared_ptr<Node>;  // shared: a file lives while a name or an open file refers to it

/// Returns a number below `options`: the disk's choice when the standard allows several outcomes.
using Choose = std::function<std::size_t(std::size_t options)>;

/// Goes through all sequences of choices: `do run(all) while (all.next())`.
class AllChoices {
 public:
  std::size_t operator()(std::size_t options) {
    if (at_ == taken_.size()) taken_.emplace_back(0, options);
    return taken_[at_++].first;
  }
  bool next();

 private:
  std::vector<std::pair<std::size_t, std::size_t>> taken_;  // each choice, and out of how many
  std::size_t at_ = 0;
};

class MemoryFileSystem : public FileSystem {
 public:
  MemoryFileSystem();

  // faults
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
  /// Cut the power at the n-th change from now (from 1). A write first gets `bytes` in; another
  /// change happens only if `bytes` is kWhole.
  void cut_power_at(std::uint64_t n, std::size_t bytes = 0);
  /// Start the next process after the first one ended, without a power cut. What was not synced
  /// remains unsafe.
  void start_again() { power_lost_ = false; }
  /// Fail the n-th change from now with this errno. A failing write gets half its bytes in. A
  /// failing sync loses what was not synced, and a second sync of the same file "works", as on
  /// Linux.
  void fail_at(std::uint64_t n, int error_number);
  /// Allow only this many more bytes (ENOSPC); removing files frees their bytes.
  void set_space(std::uint64_t bytes) { space_ = bytes; }
  /// Make syncs report success and do nothing, as for code that does not sync.
  void skip_syncs(bool of_files, bool of_folders) {
    skip_file_syncs_ = of_files, skip_folder_syncs_ = of_folders;
  }
  void set_one_file_system(bool one) { one_file_system_ = one; }

  // observations
  bool power_lost() const { return power_lost_; }
  std::uint64_t changes() const { return changes_; }
  /// Return each change, such as "write /run/a 12" or "sync-folder /run", for counts and messages.
  const std::vector<std::string>& trace() const { return trace_; }
  /// Return how often a file was synced again after a failed sync.
  int syncs_after_failure() const { return syncs_after_failure_; }

  // states after a failure
  /// Return the state after a kill of the writer only: everything it did is there.
  std::unique_ptr<MemoryFileSystem> after_kill() const;
  /// Return a state after a power cut. Seed 0: durable data only; others: a random legal state.
  std::unique_ptr<MemoryFileSystem> after_power_cut(std::uint64_t seed) const;
  /// Return the legal state that `choose` selects; if it always returns 0, durable data only. Each
  /// unsynced write is lost, complete, only its length (zeros), cut after a multiple of
  /// `tear_every` bytes, or has any of its 512-byte sectors.
  std::unique_ptr<MemoryFileSystem> after_power_cut(const Choose& choose,
                                                    std::size_t tear_every = 1) const;

  // direct access
  void put(const std::string& path, std::string_view bytes);  // makes its folders; all is durable
  std::string get(const std::string& path) const;
  void flip_bit(const std::string& path, std::uint64_t bit);
  void cut_file(const std::string& path, std::uint64_t bytes);
  /// Return every path below, sorted; folders end with '/'.
  std::vector<std::string> tree(const std::string& path = "/") const;

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

 private:
  friend class MemoryWritableFile;
  friend class MemoryReadableFile;

  /// A change of names that is not durable yet: `to` gets `node`, and `from` loses it.
  struct PendingChange {
    NodePtr from_folder, to_folder;  // null if the change has no such half
    std::string from, to;
    NodePtr node;
  };
  enum class Outcome { Go, GoThenLost, Fail };
  struct Start {
    Outcome outcome = Outcome::Go;
    int error_number = 0;
    std::size_t bytes = kWhole;  // how much of a write happens
  };

  Start start_change(std::string what);
  NodePtr find(const std::string& path) const;
  Result<NodePtr> folder_of(const std::string& path, std::string_view doing) const;
  Result<Unit> move(const std::string& from, const std::string& to, bool replace);
  Result<Unit> write_to(Node& node, const std::string& path, std::string_view bytes);
  Result<Unit> sync_node(Node& node, const std::string& path);
  Result<Unit> truncate_node(Node& node, const std::string& path, std::uint64_t bytes);
  void note(PendingChange change) { pending_.push_back(std::move(change)); }
  static void apply(const PendingChange& change);

  NodePtr root_;
  std::vector<PendingChange> pending_;
  std::uint64_t next_inode_ = 1;
  std::uint64_t changes_ = 0;
  std::uint64_t cut_at_ = 0, fail_at_ = 0;
  std::size_t cut_bytes_ = 0;
  int fail_errno_ = 0;
  std::optional<std::uint64_t> space_;
  bool power_lost_ = false;
  bool one_file_system_ = true;
  bool skip_file_syncs_ = false, skip_folder_syncs_ = false;
  int syncs_after_failure_ = 0;
  std::vector<std::string> trace_;
};

}  // namespace train::fakes
