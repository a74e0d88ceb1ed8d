// This file reads and writes files that hold a secret, or that say whom to trust, and checks who
// may have changed them on the way. The rules resemble those of OpenSSH for keys; a Kubernetes
// secret (owner root, mode 0440, reached by root's links) passes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Open a secret for reading. It must be a regular file that belongs to us and that nobody else may
/// touch, or a file of root's that others may not touch and its group may at most read. A link is
/// followed only if nobody but us and root can change it, or a folder on the way to it. `what`
/// names it in errors: "token file".
Result<FileDescriptor> open_secret_file(std::string_view what, const std::string& path);

/// A text that is wiped from memory with its owner.
class SecretText {
 public:
  /// Reserve `bytes_max` bytes, all zero. The text never grows beyond them, since growing would
  /// leave a copy behind.
  explicit SecretText(std::size_t bytes_max) : bytes_(bytes_max) {}
  SecretText(SecretText&&) noexcept = default;
  SecretText& operator=(SecretText&&) = delete;
  ~SecretText();

  std::string_view text() const { return {bytes_.data(), size_}; }

 private:
  friend Result<SecretText> read_secret_file(std::string_view, const std::string&, std::size_t);
  std::vector<char> bytes_;
  std::size_t size_ = 0;
};

/// Read all of such a file. InvalidArgument if it has more than `bytes_max`.
Result<SecretText> read_secret_file(std::string_view what, const std::string& path,
                                    std::size_t bytes_max);
/// Read all of a file that is no secret, but that nobody except us and root may write. The rules
/// are those of open_secret_file, except that everybody may read it.
Result<std::string> read_trusted_file(std::string_view what, const std::string& path,
                                      std::size_t bytes_max);

/// Write and sync a new file. If that fails, nothing is left of it. `what` names it in errors.
/// AlreadyExists: an existing file is never overwritten.
Result<Unit> create_secret_file(std::string_view what, const std::string& path,
                                std::string_view bytes, mode_t mode = 0600);

}  // namespace train
