// What a file is, found out while it is written into a staging folder: whoever takes it over from
// there need not read it again (lib/storage/staged_files.h). Used by sdk/torch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace train::sdk {

/// Of one file. Not thread-safe.
class FileDigest {
 public:
  FileDigest();
  ~FileDigest();
  /// The file's next bytes.
  void update(std::string_view bytes);
  /// Of all its bytes: the line for the file `path` in digests_file().
  std::string line(const std::string& path) const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

/// In the staging folder, written last.
std::string digests_file();

}  // namespace train::sdk
