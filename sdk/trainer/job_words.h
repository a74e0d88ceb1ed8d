// What a driver tells train-run of its job: the words behind "train-run run", and the program that
// a driver is itself to its workers.
#pragma once

#include <train/trainer.h>

#include <string>
#include <vector>

namespace train::trainer {

/// Return whether train-run has started this process as a worker, or alone (num_workers: 0).
bool in_worker();
/// Return the train-run to start.
std::string program_of(const TrainerOptions& options);
/// Return "--set key=value" for each, in order of the keys.
std::vector<std::string> set_words(const Dict& values);
/// Insert words among the options in `words`: before the program that "--" begins, if there is one.
void add_options(std::vector<std::string>& words, const std::vector<std::string>& more);
/// Return the spec with this program, and its arguments, as the workers' command.
Dict with_own_command(Dict spec, int argc, char** argv);

}  // namespace train::trainer
