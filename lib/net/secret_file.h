// Files that hold a secret: who may have touched one on its way to us. Near to what OpenSSH asks of
// keys; a Kubernetes secret (owner root, mode 0440, reached by links of root's) passes.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Open a secret for reading. It must be a regular file that belongs to us and that nobody else may
/// touch, or one of root's that others may not touch and its group may read at most. A link is
/// followed where nobody but us and root can change it, or a folder that was passed. `what` names
/// it in errors: "token file".
Result<FileDescriptor> open_secret_file(std::string_view what, const std::string& path);

}  // namespace train
