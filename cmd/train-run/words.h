// The words of the command line before CLI11 reads them: which command they mean, which of them are
// the program's, and what is wrong about one that CLI11 would only refuse.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

namespace train {

using Words = std::vector<std::string>;

/// Return the words with their command in front: `train-run job.yaml …` means `train-run run
/// job.yaml …`, and so does `train-run -n 4 -- ./train`. If the first word is not a subcommand, it
/// is the path of a job. `run` is that subcommand.
Words with_command(const CLI::App& app, const CLI::App& run, int argc, char** argv);

/// Take the words after "--" off those of a job: a program with its arguments, or arguments for the
/// command of the spec.
std::optional<Words> take_arguments(Words& words);

/// Take the words from `begin` on off the others.
Words take_words(Words& words, Words::iterator begin);

/// Return the first word behind the command that is neither an option nor the value of one.
Words::iterator first_positional(const CLI::App& command, Words& words);

/// Return what is wrong about the words, as far as CLI11 would say less; "" if nothing is.
std::string unknown_word(const CLI::App& app, const Words& words);

/// Return whether the words set the option, as --name or --name=value.
bool has_option(const Words& words, const std::string& name);

}  // namespace train
