// Declares the subcommands of `data` and their options.
#pragma once

#include "cmd/train-run/command_list.h"
#include "cmd/train-run/commands.h"

namespace train {

/// What the words of the command line set.
struct DataOptions {
  DataCommand inspect, plan, bench;
  ConvertCommand convert;
};

/// Add `data` to `app`. `options` must live until the command has run.
void add_data_commands(Commands& commands, CLI::App& app, DataOptions& options);

}  // namespace train
