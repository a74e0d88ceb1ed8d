// What commands share that start other runs as children, for a sweep or for replica groups: where
// such a command can run, the folder that has its children, and how they are stopped. Each prints
// what is wrong.
#pragma once

#include <string>
#include <string_view>

#include "launcher/spec/job_spec_parser.h"

namespace train {

/// Check that `what` ("a sweep") can run here. Return an exit code; 0: it can.
int check_parent_place(const JobSpec& spec, std::string_view what);

/// Make the folder that the spec names, with the spec in it. Return an exit code; 0: `path` is it.
int make_parent_folder(const ParsedSpec& parsed, const SpecSource& source, std::string& path);

/// Return "running (train-run pid 42 on n1, since …)", of the train-run that holds the lock.
std::string running_text(const std::string& lock);

/// Ask a train-run that has child runs ("trials") to stop them, and wait until it has ended. `lock`
/// and `request`: in its folder. Return 69 if it has died before that.
int stop_children(const std::string& path, const std::string& lock, const std::string& request,
                  std::string_view children);

}  // namespace train
