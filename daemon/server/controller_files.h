// Keeps a note of each controller in traind's runtime folder, so that a restarted traind reattaches
// to it, and finds out from the run's folder whether the run has ended.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/base/user_account.h"
#include "lib/wire/daemon_messages.h"

namespace train {

struct DetachedNote {
  DetachController request;
  pid_t pid = -1;              // −1: none runs
  std::string pid_start;       // its process_start(), because pids are reused
  std::string exit_at_detach;  // exit_mark() before the first controller began
  /// For one that was started in place of a controller on another node: whether it has taken the
  /// run over already. `None`: it is no such.
  enum class Takeover { None, Begun, Done };
  Takeover takeover = Takeover::None;
  std::optional<uid_t> uid = {};  // of the user that it runs as; none: ours
};

struct ControllerFiles {
  std::string note;
  std::string log;  // what it prints before it owns the run
};

ControllerFiles controller_files(const std::string& runtime_dir, const std::string& tag);
/// Return the tags of all notes in the runtime folder.
std::vector<std::string> list_controller_tags(const std::string& runtime_dir);
void remove_controller_files(const ControllerFiles& files);

Result<Unit> write_note(const std::string& path, const DetachedNote& note);
std::optional<DetachedNote> read_note(const std::string& path);

/// Return a mark of the exit.json that the run has, or "" if it has none. If the mark has changed,
/// the run has ended in the meantime. `account`: who may look there; none: we.
std::string exit_mark(const std::string& run_dir, const std::optional<UserAccount>& account = {});
/// Return the end of a log, at most 16 KiB.
std::string tail_of(const std::string& path);

}  // namespace train
