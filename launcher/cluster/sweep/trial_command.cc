#include "launcher/cluster/sweep/trial_command.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "launcher/cluster/children/assignment.h"

namespace train {
std::vector<std::string> trial_command(const SweepOptions& options, const SweepFolder& folder,
                                       const TrialState& state, int trial, bool resume,
                                       const std::string& daemon) {
  std::vector<std::string> words{options.program, resume ? "resume" : "run"};
  words.push_back(resume ? folder.trial(trial, state.part) : folder.resolved_spec());
  words.insert(words.end(), {"--driver-fd", "{FD}", "--on-driver-exit", "stop"});
  if (options.search.lock_step) words.insert(words.end(), {"--pace", "1"});
  if (!daemon.empty()) words.insert(words.end(), {"--shared-daemon", daemon});
  if (resume) return words;
  const auto set = [&](const std::string& text) { words.insert(words.end(), {"--set", text}); };
  set("sweep=null");
  set("name=" +
      boost::json::serialize(boost::json::string(SweepFolder::trial_name(trial, state.part))));
  set(assignment("run_config.storage_path", boost::json::string(literal(folder.trials()))));
  set(fmt::format("env.TRAINRUN_TRIAL=\"{}\"", trial));
  if (state.from)
    set(assignment("resume_from_checkpoint",
                   boost::json::string(literal(folder.donor(state.from->checkpoint)))));
  if (options.shorten_orphans) set("run_config.failure_config.orphan_timeout=10s");
  constexpr std::string_view kOfSpec = "spec.";
  for (const auto& [path, value] : state.values) {
    const std::string_view key = path;
    set(key.starts_with(kOfSpec) ? assignment(key.substr(kOfSpec.size()), value)
                                 : assignment(fmt::format("train_loop_config.{}", key), value));
  }
  return words;
}

}  // namespace train
