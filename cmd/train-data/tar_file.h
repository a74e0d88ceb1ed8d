// Writes a tar archive, member by member, with libarchive, which is loaded on demand. The same
// members give the same bytes: they have no times and no owners.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "cmd/train-data/output_file.h"

namespace train {

class TarFile {
 public:
  static Result<TarFile> open(const OutputPlace& file);
  TarFile(TarFile&&) noexcept;
  ~TarFile();

  Result<Unit> add(const std::string& name, std::string_view content);
  /// Write the mark of the archive's end.
  Result<Unit> finish();

 private:
  struct Open;
  explicit TarFile(std::unique_ptr<Open> open);

  std::unique_ptr<Open> open_;
};

}  // namespace train
