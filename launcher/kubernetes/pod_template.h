// Makes the template of a job's pods: containers, volumes, rights, probes. Pure.
#pragma once

#include <boost/json/value.hpp>
#include <string>

#include "launcher/kubernetes/pod_plan.h"

namespace train {

inline constexpr int kTrainPort = 7070, kHealthPort = 7071;
// Where things are in the containers.
inline constexpr const char* kPodHome = "/tmp";
inline constexpr const char* kSecretFolder = "/etc/trainrun/secret";
inline constexpr const char* kHostsFile = "/etc/trainrun/hosts";

/// What runs in a pod. Member: `train-run --member`. Node: traind. Launcher: train-run alone.
enum class PodRole { Member, Node, Launcher };

struct PodContext {
  const KubernetesOptions& options;
  PodPlan plan;
  std::string name;     // of all objects; some have an ending
  std::string storage;  // a folder in the containers; empty: an object store
  std::string secret;   // the Secret of the token
  int drain_s = 60;     // how long traind waits for launchers to move their work away
  int grace_s = 120;    // from TERM to KILL
};

/// Return the labels of the context's pods in this role.
boost::json::object pod_labels(const PodContext& context, PodRole role);

/// `command`: as Kubernetes takes it, see argument().
boost::json::object pod_template(const PodContext& context, PodRole role,
                                 boost::json::array command);

/// Return a word of a command or a value of a variable so that Kubernetes replaces no $(NAME) in
/// it.
std::string argument(std::string_view word);

}  // namespace train
