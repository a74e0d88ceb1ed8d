// Prints the resolved spec as YAML: everything spelled out, plain or with each value's origin
// beside it.
#pragma once

#include <string>

#include "launcher/spec/reading.h"

namespace train::spec {

/// Return a YAML that parses back to the same JobSpec (spec.resolved.yaml in the run's folder).
std::string resolved_yaml(const JobSpec& spec);

/// Return the YAML for --print-config: "  num_workers: 8  # job.yaml:4". Literal secrets are
/// redacted.
std::string annotated_yaml(const JobSpec& spec, const Reading& reading);

}  // namespace train::spec
