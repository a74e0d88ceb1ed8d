// The spec of a run as it may be shown: without secrets.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "launcher/core/job_spec.h"
#include "launcher/dashboard/folder_files.h"

namespace train {

struct ShownSpec {
  std::string given = {}, resolved = {};  // YAML for people; "": there is none that may be shown
  std::optional<JobSpec> spec = {};       // with its secrets
};

/// Read spec.yaml and spec.resolved.yaml. From now on, redacted() hides the secrets in them.
ShownSpec read_shown_spec(const FolderFiles& files);

/// Return the values of a resolved YAML, flat: "scaling_config.num_workers" → "2". Items of lists
/// have numbers. Pure; for the form that resolved_yaml() writes.
std::map<std::string, std::string> flat_fields(const std::string& yaml);

}  // namespace train
