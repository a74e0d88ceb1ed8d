// Checkpoints as user code sees them: a folder that holds the files of all ranks, with metadata.
// See lib/storage/FORMAT.md.
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

/// A handle to a committed checkpoint (get_checkpoint), or a checkpoint that is about to be
/// reported.
class Checkpoint {
 public:
  /// Make a checkpoint of the files under `directory`, sub-folders included. report() copies them
  /// before it returns, so the caller may change or delete the folder afterwards. Files and folders
  /// whose names begin with '.' are left out. Throws Failure when `directory` is not a directory.
  static Checkpoint from_directory(const std::filesystem::path& directory);
  /// Make a checkpoint as from_directory does, but let report() move the folder instead of copying
  /// it (across file systems it copies the files, and then removes the folder; if it cannot remove
  /// the folder, it only warns on stderr). Afterwards the folder is gone. report() refuses to move
  /// a committed checkpoint.
  static Checkpoint take_directory(const std::filesystem::path& directory);
  /// Make a checkpoint of one small value, in a file "state.json". Read it back with to_value().
  /// Throws Failure("invalid_argument") for a value that could not be read back: more than 128
  /// levels of dicts and lists, or two keys that become one because they are not UTF-8.
  static Checkpoint from_json(const Value& value);
  /// Make a checkpoint of the files that `write` creates in the folder that it is given. The SDK
  /// calls `write` on its own thread after report() has returned, so the data that `write` reads
  /// must not change before it is done (torch.h's from_state takes its copy first). An exception in
  /// `write` fails only this checkpoint.
  static Checkpoint from_writer(std::function<void(const std::filesystem::path&)> write);
  /// Open a committed checkpoint of any run, for example to serve its model: `directory` is one of
  /// its checkpoint_… folders. Throws Failure("corrupt") if it is incomplete.
  static Checkpoint open(const std::filesystem::path& directory);
  /// Save a module and an optimizer: from_state(model, optimizer). Defined in torch.h.
  template <class... State>
  static Checkpoint from_state(State&&... state);

  /// Return the folder of a committed checkpoint, for reading. If the checkpoint is from
  /// get_checkpoint(), first verify its files against the manifest, except those that load() or
  /// to_value() have already verified. Throws Failure("corrupt"), which names the file, and Failure
  /// when the checkpoint is not committed yet.
  const std::filesystem::path& as_directory() const;
  /// Return the value that from_json saved. Throws Failure when there is no state.json.
  Value to_value() const;
  /// Return the metadata. In a committed checkpoint it consists of the spec's `metadata`, what
  /// set_metadata set, and the positions of the datasets; before that, only of what set_metadata
  /// set.
  const Dict& metadata() const;
  /// Set the checkpoint's own metadata. Throws Failure("invalid_argument") for the key "data",
  /// which holds the positions of the datasets: leave it out of another checkpoint's metadata().
  /// report() refuses a checkpoint whose metadata, the
  /// spec's included, has more than 1 MiB as JSON or more than 31 levels of nested dicts and lists.
  void set_metadata(Dict metadata);
  /// Return the metrics that rank 0 reported with the checkpoint; empty before it is committed.
  const Dict& metrics() const;
  /// Load what from_state saved (defined in torch.h). Reads each file once, and verifies it while
  /// reading. After a Failure("corrupt"), the tensors keep what was loaded before it.
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

/// Return the newest committed checkpoint of this run, or the one to resume from; nothing at a
/// fresh start. Every rank of an attempt gets the same checkpoint, because the launcher chooses it
/// before the attempt starts. Never blocks on peers. Reads the manifest and checks the sizes of the
/// files; throws Failure("corrupt"). The bytes are verified when they are read: by load(),
/// to_value() and as_directory().
std::optional<Checkpoint> get_checkpoint();

/// Return one more than the `epoch` that the restored checkpoint was reported with; else 0.
int start_epoch();

/// Return how many workers made the checkpoint that this attempt starts from; 0 when there is none.
/// Reads its manifest, not its files. Throws Failure("corrupt") when the manifest cannot be read.
int restored_world_size();

/// Call `f(old_size, new_size)` now, on this thread, if the size of the group differs from that of
/// the group that made the restored checkpoint: for example, to scale a learning rate, or to
/// redistribute what each rank kept for itself. A group changes its size only between attempts, so
/// f is called at most once per process. Exceptions from f reach the caller. The global batch needs
/// no adjustment: see per_worker_batch(). (Horovod's reset callbacks.)
void on_resize(const std::function<void(int old_size, int new_size)>& f);

}  // namespace train
