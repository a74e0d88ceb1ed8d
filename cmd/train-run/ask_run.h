// What the commands share that ask a running train-run for something (run_requests.h).
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "cmd/train-run/commands.h"
#include "launcher/cluster/run/run_requests.h"
#include "lib/storage/run_folder.h"

namespace train {

/// Return the folder of a run that goes on, on this machine. Unavailable: it does not.
Result<RunFolder> folder_to_ask(const RunReference& reference);

/// Whether a launcher that takes the run over meanwhile would answer, too.
enum class OfLauncher { Any, Same };
/// Wait for the answer. Unavailable: it says no, and why, or there is none. `what`: what was asked
/// for, "stacks".
Result<RequestAnswer> request_answer(PendingRequest request, const RunFolder& folder,
                                     std::chrono::milliseconds within, const std::string& what,
                                     OfLauncher of = OfLauncher::Any);
/// Wait for the answer, and return the path of the file with the result. Unavailable: there is
/// none, and why.
Result<std::string> answer_of(PendingRequest request, const RunFolder& folder,
                              std::chrono::milliseconds within, const std::string& what);

/// Return the ranks that an option names ("3", "0-3,7"); "": none, which means all.
Result<std::vector<Rank>> named_ranks(const std::string& text);

/// Ask for the stacks of these ranks (none: all), and return the path of their text.
Result<std::string> ask_for_stacks(const RunFolder& folder, const std::vector<Rank>& ranks);
/// Return the path of the JSON beside the text of stacks.
std::string json_beside(std::string text_path);

/// Print why a run cannot be asked, or has not answered, and return the exit code.
int not_answered(const Error& error);

/// Print a text of ours.
void print_lines(std::string_view text);

}  // namespace train
