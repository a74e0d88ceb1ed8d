// Prints the resolved spec as YAML: everything spelled out, for people with each value's origin
// beside it, and for the parser without those values that follow from others.
#pragma once

#include <optional>
#include <string>

#include "launcher/spec/reading.h"

namespace train::spec {

/// Return a YAML that parses back to the same JobSpec (spec.resolved.yaml in the run's folder),
/// also with other values for some of its keys.
std::string resolved_yaml(const JobSpec& spec);

/// Return the YAML for --print-config: "  num_workers: 8  # job.yaml:4". Literal secrets are
/// redacted.
std::string annotated_yaml(const JobSpec& spec, const Reading& reading);

/// Return the section `sweep:`; "" without one.
std::string sweep_yaml(const std::optional<SearchSpec>& sweep);
/// The same for people.
std::string annotated_sweep_yaml(const std::optional<SearchSpec>& sweep, const Reading& reading);

}  // namespace train::spec
