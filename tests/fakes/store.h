// A FileSystem in memory that can lose power. It keeps two states: what programs see, and what is
// certain to be on disk. At a power cut any legal subset of the difference survives, chosen by a
// seed: unsynced writes (torn at any byte), names made, moved and removed in folders that were not
// synced since. Operations that change something are counted, so that a test can cut at each in
// turn, or let each fail.
//
//   MemoryFileSystem disk;
//   disk.cut_power_at(17, 3);  // the 17th change: a write gets 3 bytes in, then everything fails
//   run_the_code(disk);
//   auto after = disk.after_power_cut(seed);  // what a machine finds when it is on again
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

/// Answers a number below `options`: what the disk does where the standard lets it choose.
using Choose = std::function<std::size_t(std::size_t options)>;

/// All sequences of choices, one after the other: `do run(all) while (all.next())`.
class AllChoices {
 public:
  std::size_t operator()(std::size_t options) {
    if (at_ == taken_.size()) taken_.emplace_back(0, options);
    return taken_[at_++].first;
  }
  bool next();

 private:
  std::vector<std::pair<std::size_t, std::size_t>> taken_;  // the choice, and of how many
  std::size_t at_ = 0;
};

class MemoryFileSystem final : public FileSystem {
 public:
  MemoryFileSystem();

  // faults
  static constexpr std::size_t kWhole = std::numeric_limits<std::size_t>::max();
  /// Cut at the n-th change from now (from 1). A write gets `bytes` in before; another change
  /// happens if `bytes` is kWhole.
  void cut_power_at(std::uint64_t n, std::size_t bytes = 0);
  /// It was only the process that ended there: the next one goes on, and what was not synced is as
  /// unsafe as before.
  void start_again() { power_lost_ = false; }
  /// The n-th change from now fails with this errno. A failing write gets half its bytes in; a
  /// failing sync loses what was not synced, and a second sync of the same file "works", as on
  /// Linux.
  void fail_at(std::uint64_t n, int error_number);
  /// Only this much more fits (ENOSPC); removing files frees their bytes.
  void set_space(std::uint64_t bytes) { space_ = bytes; }
  /// A sync that says "done" and does nothing: what code without that sync would do.
  void skip_syncs(bool of_files, bool of_folders) {
    skip_file_syncs_ = of_files, skip_folder_syncs_ = of_folders;
  }
  void set_one_file_system(bool one) { one_file_system_ = one; }

  // what happened
  bool power_lost() const { return power_lost_; }
  std::uint64_t changes() const { return changes_; }
  /// What each change was: "write /run/a 12", "sync-folder /run", for counting and for messages.
  const std::vector<std::string>& trace() const { return trace_; }
  /// How often a file was synced again after a failed sync of it.
  int syncs_after_failure() const { return syncs_after_failure_; }

  // what is found afterwards
  /// The writer was killed, the machine lives: everything it did is there.
  std::unique_ptr<MemoryFileSystem> after_kill() const;
  /// Power was lost. Seed 0: only what was certain; others: a random legal state.
  std::unique_ptr<MemoryFileSystem> after_power_cut(std::uint64_t seed) const;
  /// The legal state that `choose` chooses; always 0: only what was certain. Each unsynced write is
  /// lost, whole, only its length (zeros), cut after every `tear_every` bytes, or has any of its
  /// 512-byte sectors.
  std::unique_ptr<MemoryFileSystem> after_power_cut(const Choose& choose,
                                                    std::size_t tear_every = 1) const;

  // by hand
  void put(const std::string& path, std::string_view bytes);  // with its folders, all on disk
  std::string get(const std::string& path) const;
  void flip_bit(const std::string& path, std::uint64_t bit);
  void cut_file(const std::string& path, std::uint64_t bytes);
  /// Every path below, folders with a final '/', sorted.
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

  /// One change of names that is not certain yet: `to` gets `node`, and `from` loses it.
  struct PendingChange {
    NodePtr from_folder, to_folder;  // null where there is no such half
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
