// Merges the layers of a spec: the file that `extends` names, the file itself, and --set overrides.
#pragma once

#include "launcher/spec/reading.h"

namespace train::spec {

/// Read all layers into one tree. Return nullptr if one of them is not a tree; mistakes go to
/// reading.diagnostics.
const yaml::Node* read_layers(Reading& reading, yaml::Tree& tree, const std::string& text);

}  // namespace train::spec
