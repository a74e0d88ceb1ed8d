// This file reads and writes files that hold a secret or determine whom to trust, and checks who
// could have changed them or the path to them. The rules resemble those of OpenSSH for keys; a
// Kubernetes secret (owner root, mode 0440, reached through root's links) passes.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Open a secret for reading. It must be a regular file that belongs to us and gives nobody else
/// access, or that belongs to root and gives its group at most read access and others none. A link
/// is followed only if nobody but us and root can change it or the folders on the path. `what`
/// names it in errors: "token file".
Result<FileDescriptor> open_secret_file(std::string_view what, const std::string& path);

/// A text whose destructor wipes it from memory.
class SecretText {
 public:
  /// Reserve `bytes_max` zero bytes. The text never grows beyond them, since growing would leave a
  /// copy behind.
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

/// Read a whole secret file. InvalidArgument if it has more than `bytes_max`.
Result<SecretText> read_secret_file(std::string_view what, const std::string& path,
                                    std::size_t bytes_max);
/// Read a whole file that is not secret, but that only we and root may write. The rules are those
/// of open_secret_file, except that everybody may read it.
Result<std::string> read_trusted_file(std::string_view what, const std::string& path,
                                      std::size_t bytes_max);

/// Write and sync a new file. If that fails, nothing is left of it. `what` names it in errors.
/// AlreadyExists if the file exists; it is never overwritten.
Result<Unit> create_secret_file(std::string_view what, const std::string& path,
                                std::string_view bytes, mode_t mode = 0600);

}  // namespace train
