// `train-run __complete WORD...`: what a shell offers when the user presses Tab. The words are
// those after train-run, up to the cursor; the last one is still being written, and may be empty.
// Prints one candidate per line, with its description after a tab. A last line ":files" or
// ":folders" says that paths are candidates too. packaging/completion has what the shells call.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace train {

inline constexpr std::string_view kCompleteCommand = "__complete";

/// Print the candidates, as found in the tree of commands. Reads the folders of runs, for 3 s at
/// most: then the process ends by SIGALRM.
int complete(const CLI::App& app, const std::vector<std::string>& words);

}  // namespace train
