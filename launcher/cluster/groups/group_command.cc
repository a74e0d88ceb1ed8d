#include "launcher/cluster/groups/group_command.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>

#include "launcher/cluster/children/assignment.h"

namespace train {

std::vector<std::string> group_command(const GroupsOptions& options, const GroupsFolder& folder,
                                       const GroupCall& call) {
  std::vector<std::string> words{options.program, call.resume ? "resume" : "run"};
  words.push_back(call.resume ? folder.group(call.group) : folder.resolved_spec());
  words.insert(words.end(), {"--driver-fd", "{FD}", "--on-driver-exit", "stop"});
  if (!call.daemon.empty()) words.insert(words.end(), {"--shared-daemon", call.daemon});
  if (call.group == 0)
    words.insert(words.end(), options.output_words.begin(), options.output_words.end());
  const auto set = [&](const std::string& text) { words.insert(words.end(), {"--set", text}); };
  if (!call.lighthouse.empty() && (!call.resume || call.moved))
    set(assignment("env.TORCHFT_LIGHTHOUSE", boost::json::string(call.lighthouse)));
  if (call.resume) return words;
  // Without it, torchft's Manager gives up when the lighthouse is away for a moment.
  if (!call.lighthouse.empty() && !options.environment.contains("TORCHFT_QUORUM_RETRIES"))
    set("env.TORCHFT_QUORUM_RETRIES=\"10\"");
  set("backend=torch");
  for (const char* key : {"replica_groups", "min_replicas", "lighthouse"})
    set(fmt::format("backend_config.{}=null", key));
  set("sweep=null");
  set(assignment("name", boost::json::string(GroupsFolder::group_name(call.group))));
  set(assignment("run_config.storage_path", boost::json::string(literal(folder.groups()))));
  set(fmt::format("env.REPLICA_GROUP_ID=\"{}\"", call.group));
  set(fmt::format("env.NUM_REPLICA_GROUPS=\"{}\"", options.spec.backend_config.replica_groups));
  if (options.spec.run_config.failure_config.orphan_timeout == FailureConfig{}.orphan_timeout)
    set("run_config.failure_config.orphan_timeout=10s");
  return words;
}

}  // namespace train
