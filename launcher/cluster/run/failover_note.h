// The file in a detached run's folder that says who may take over its controller, and whom to ask
// before that. Each launcher has a file of its own, so that one that was replaced changes nothing.
// Calls block.
#pragma once

#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

struct FailoverNote {
  std::string host;                 // of the controller
  std::vector<std::string> ready;   // names of nodes that stand ready, the first one first
  std::vector<std::string> voters;  // addresses of nodes on other machines that it is in touch with
  bool operator==(const FailoverNote&) const = default;
};

Result<Unit> write_failover_note(const RunFolder& folder, Generation launcher,
                                 const FailoverNote& note);
/// Errors: NotFound, or Corrupt if it is no such note.
Result<FailoverNote> read_failover_note(const RunFolder& folder, Generation launcher);
/// Return that of the newest launcher.
Result<FailoverNote> read_failover_note(const RunFolder& folder);
/// Remove all: the run has ended, is not detached any more, or begins with a new launcher.
void remove_failover_notes(const RunFolder& folder);

}  // namespace train
