// What declares the subcommands: main.cc, and the files beside it that declare some of them.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace train {

/// The subcommands, each with its action.
class Commands {
 public:
  CLI::App* add(CLI::App& parent, const std::string& name, const std::string& description,
                std::function<int()> action) {
    CLI::App* command = parent.add_subcommand(name, description);
    actions_.emplace_back(command, std::move(action));
    return command;
  }
  /// Run the subcommand that was parsed, and return its exit code.
  int run() const {
    const auto parsed = std::find_if(actions_.begin(), actions_.end(),
                                     [](const auto& command) { return command.first->parsed(); });
    return parsed->second();  // CLI11 requires one
  }

 private:
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions_;
};

inline void add_output_option(CLI::App* command, std::string& output) {
  command->add_option("--output", output, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->envname("TRAINRUN_OUTPUT");
}

}  // namespace train
