// Checkpoints as user code sees them: a folder of files of all ranks, with metadata. See
// lib/storage/FORMAT.md.
#pragma once

#include <train/config.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace train {

namespace sdk {
class CheckedFiles;
}

/// Either a handle to a committed checkpoint (get_checkpoint), or one that is about to be reported.
class Checkpoint {
 public:
  /// Report the files under `directory`, sub-folders included. They are copied before report()
  /// returns, so the caller may change or delete the folder afterwards. Files that begin with '.'
  /// are left out. Throws Failure when it is not a directory.
  static Checkpoint from_directory(const std::filesystem::path& directory);
  /// As from_directory, but the folder is moved, not copied, where it lies on the same file system:
  /// it is gone afterwards. A committed checkpoint is refused by report().
  static Checkpoint take_directory(const std::filesystem::path& directory);
  /// One small value in a file "state.json" (seed 001's dict). Read it again with to_value().
  static Checkpoint from_json(const Value& value);
  /// Files that `write` puts into the folder it is given, called on the SDK's own thread after
  /// report() returned: what it reads must not change meanwhile (torch.h's from_state takes its
  /// copy first). An exception in it fails this checkpoint only.
  static Checkpoint from_writer(std::function<void(const std::filesystem::path&)> write);
  /// torch.h: a module and an optimizer (from_state(model, optimizer)).
  template <class... State>
  static Checkpoint from_state(State&&... state);

  /// The folder of a committed checkpoint, to read from. All files of one from get_checkpoint() are
  /// verified against the manifest first, but those that load() or to_value() have verified. Throws
  /// Failure("corrupt") that names the file, and Failure for one that is not committed yet.
  const std::filesystem::path& as_directory() const;
  /// The value of from_json. Throws Failure when there is no state.json.
  Value to_value() const;
  /// The spec's metadata and what set_metadata added.
  const Dict& metadata() const;
  void set_metadata(Dict metadata);
  /// The metrics of rank 0 that it was reported with; empty before it is committed.
  const Dict& metrics() const;
  /// torch.h: load what from_state saved. Each file is read once, and verified while it is read:
  /// Failure("corrupt") leaves in the tensors what was loaded by then.
  template <class... State>
  void load(State&&... state) const;

  struct Impl;
  explicit Checkpoint(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  // for the SDK itself
  const std::shared_ptr<Impl>& impl() const { return impl_; }
  const sdk::CheckedFiles& checked_files() const;

 private:
  std::shared_ptr<Impl> impl_;
};

/// The newest committed checkpoint of this run, or the one to resume from; nothing at a fresh
/// start. The same on every rank of an attempt: it is decided before the attempt starts. Never
/// blocks on peers. Reads the manifest and looks at the sizes of the files (Failure("corrupt"));
/// their bytes are verified when they are read: load(), to_value(), as_directory().
std::optional<Checkpoint> get_checkpoint();

/// One after the `epoch` that the restored checkpoint was reported with, else 0.
int start_epoch();

/// How many workers made the checkpoint that this attempt starts from; 0 where there is none. Reads
/// its manifest, not its files. Throws Failure("corrupt") when that cannot be read.
int restored_world_size();

/// Call `f(old_size, new_size)` now, on this thread, if the group has another size than the one
/// that made the restored checkpoint: to scale a learning rate, or to deal out anew what each rank
/// kept for itself. A group changes its size only between attempts, so f is called at most once a
/// process. What f throws leaves from here. The global batch needs nothing: see per_worker_batch().
/// (Horovod's reset callbacks.)
void on_resize(const std::function<void(int old_size, int new_size)>& f);

}  // namespace train
