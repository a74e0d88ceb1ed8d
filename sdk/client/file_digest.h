// Digests a file while it is written into a staging folder, so that the code that stores it later
// need not read it again (lib/storage/staged_files.h). sdk/torch uses this.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace train::sdk {

/// The digest of one file. Not thread-safe.
class FileDigest {
 public:
  FileDigest();
  ~FileDigest();
  /// Add the file's next bytes.
  void update(std::string_view bytes);
  /// Return the line for the file `path` in digests_file(), once all its bytes are added.
  std::string line(const std::string& path) const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

/// Return the name of the file with the digests. It is written last into the staging folder.
std::string digests_file();

}  // namespace train::sdk
