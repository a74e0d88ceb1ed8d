// The cursor of a sampler that has a name: where it is, in every checkpoint, under the metadata's
// key `data` as "loader/<name>":
//
//   {"epoch": 3, "rows": 640, "order": {"version": 1, "rows": 50000, "shuffle": true, "seed": 1}}
//
// `rows` counts the rows of the epoch's order that all ranks together have consumed; those of
// `order` are the dataset's.
#pragma once

#include <train/torch.h>

#include <optional>
#include <string>

namespace train::sdk {

class LoaderCursor {
 public:
  /// Throws a Failure if another cursor of this name lives, or if the name cannot be one. Any
  /// thread.
  explicit LoaderCursor(const std::string& name);
  ~LoaderCursor();
  LoaderCursor(const LoaderCursor&) = delete;
  LoaderCursor& operator=(const LoaderCursor&) = delete;

  const std::string& name() const { return name_; }
  /// Return where the last sampler of this name was, else the restored checkpoint's; nothing if it
  /// has none. Throws a Failure if that is no cursor.
  std::optional<SamplerState> start() const;
  /// Let every checkpoint from now on hold this.
  void tell(const SamplerState& at);

 private:
  const std::string name_;
};

/// Forget where samplers have been, as at the start of the process: at the end of a run, and for
/// tests that act as several workers, one after another.
void forget_loader_cursors();

}  // namespace train::sdk
