// Checks what depends on more than one field: contradictions between fields, and missing keys.
#pragma once

#include "launcher/spec/reading.h"

namespace train::spec {

/// Fill in defaults that depend on other fields, then report contradictions. `root` is where
/// missing keys are reported.
void check_spec(Reading& reading, const yaml::Node& root, JobSpec& spec);

}  // namespace train::spec
