// Files that hold a secret, or say whom to trust: who may have touched one on its way to us. Near
// to what OpenSSH asks of keys; a Kubernetes secret (owner root, mode 0440, reached by links of
// root's) passes.
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
/// touch, or one of root's that others may not touch and its group may read at most. A link is
/// followed where nobody but us and root can change it, or a folder that was passed. `what` names
/// it in errors: "token file".
Result<FileDescriptor> open_secret_file(std::string_view what, const std::string& path);

/// A text that is wiped from memory with its owner.
class SecretText {
 public:
  /// Of at most `bytes_max`, all zero: never grown, which would leave a copy behind.
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

/// All of such a file. InvalidArgument where it has more than `bytes_max`.
Result<SecretText> read_secret_file(std::string_view what, const std::string& path,
                                    std::size_t bytes_max);
/// All of a file that is no secret, and that nobody but us and root can write: open_secret_file's
/// rules, but that all may read it.
Result<std::string> read_trusted_file(std::string_view what, const std::string& path,
                                      std::size_t bytes_max);

/// Write and sync a new file; nothing is left of it where that fails. `what` names it in errors.
/// AlreadyExists: one is never overwritten.
Result<Unit> create_secret_file(std::string_view what, const std::string& path,
                                std::string_view bytes, mode_t mode = 0600);

}  // namespace train
