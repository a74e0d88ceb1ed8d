// The text or the archive in a file, which may be compressed: .gz, .zst or .bz2 behind its name, or
// .tgz.
#pragma once

#include <arrow/io/type_fwd.h>
#include <arrow/type_fwd.h>

#include <functional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/data/read/data_file.h"

namespace train::data {

class TextBytes {
 public:
  explicit TextBytes(DataFile file);

  /// Whether stretches can only be read from the beginning on.
  bool compressed() const { return compression_ != 0; }
  /// Give all of the text to `take`, piece by piece, until it fails.
  Result<Unit> read_all(const std::function<Result<Unit>(std::string_view)>& take) const;
  /// Return `length` bytes from `offset` on; an error if the text is shorter.
  Result<std::shared_ptr<arrow::Buffer>> read(std::int64_t offset, std::int64_t length) const;

  /// Tell that read() of this stretch is called soon.
  void expect(std::int64_t offset, std::int64_t length) const;

 private:
  Result<std::shared_ptr<arrow::io::InputStream>> open() const;

  DataFile file_;
  int compression_;  // an arrow::Compression::type; 0: none
};

}  // namespace train::data
