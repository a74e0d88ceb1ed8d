// Checks what no single field can tell: fields that contradict each other, and what is missing.
#pragma once

#include "launcher/spec/reading.h"

namespace train::spec {

/// Fill in defaults that depend on other fields, then report contradictions. `root` is where
/// missing keys are reported.
void check_spec(Reading& reading, const yaml::Node& root, JobSpec& spec);

}  // namespace train::spec
