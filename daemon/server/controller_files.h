// What traind remembers of a controller that it keeps, in its runtime folder, so that a traind that
// is started again reattaches to it. And what /proc and the run's folder say of one.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/daemon_messages.h"

namespace train {

struct KeptNote {
  DetachController request;
  pid_t pid = -1;            // −1: none runs
  std::string pid_start;     // pids are given again
  std::string exit_at_keep;  // exit_mark() before the first one began
};

struct ControllerFiles {
  std::string note;
  std::string log;  // what it prints before it owns the run
};

ControllerFiles controller_files(const std::string& runtime_dir, const std::string& tag);
/// The tags of all notes in the runtime folder.
std::vector<std::string> list_controller_tags(const std::string& runtime_dir);
void remove_controller_files(const ControllerFiles& files);

Result<Unit> write_note(const std::string& path, const KeptNote& note);
std::optional<KeptNote> read_note(const std::string& path);

/// Which exit.json the run has; "" for none. Another mark than before: the run has ended meanwhile.
std::string exit_mark(const std::string& run_dir);
/// The end of a log, at most 16 KiB.
std::string tail_of(const std::string& path);

}  // namespace train
