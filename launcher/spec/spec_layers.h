// Merges the layers of a spec: the file that `extends` names, the file itself, and --set overrides,
// laid over each other.
#pragma once

#include "launcher/spec/reading.h"

namespace train::spec {

/// Read all layers into one tree. Return nullptr when one of them is no tree; mistakes go to
/// reading.diagnostics.
const yaml::Node* read_layers(Reading& reading, yaml::Tree& tree, const std::string& text);

}  // namespace train::spec
