// Writes a .tar.gz with libarchive. The archive gets its name only once it is complete and synced
// (new_file.h). Calls block.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "lib/base/result.h"

namespace train {

class ArchiveWriter {
 public:
  /// Begin an archive, readable by its owner only. AlreadyExists if `path` exists.
  static Result<ArchiveWriter> begin(const std::string& path);
  ArchiveWriter(ArchiveWriter&&) noexcept;
  ArchiveWriter& operator=(ArchiveWriter&&) = delete;
  ~ArchiveWriter();  // removes what finish() has not completed

  /// Add a file with this content.
  Result<Unit> add(const std::string& name, std::string_view content);
  /// Complete the archive, and give it its name. AlreadyExists if somebody has taken it meanwhile.
  /// Return its size in bytes.
  Result<std::uint64_t> finish();

 private:
  struct Open;
  explicit ArchiveWriter(std::unique_ptr<Open> open);
  std::unique_ptr<Open> open_;
};

}  // namespace train
