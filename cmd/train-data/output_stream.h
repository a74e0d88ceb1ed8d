// The end of a file, as Arrow's writers want it.
#pragma once

#include <arrow/io/interfaces.h>

#include <optional>
#include <string>

#include "cmd/train-data/output_file.h"

namespace train {

class PlaceStream final : public arrow::io::OutputStream {
 public:
  explicit PlaceStream(const OutputPlace& file) : file_(file) {}

  arrow::Status Write(const void* data, std::int64_t bytes) override;
  arrow::Status Close() override;
  bool closed() const override { return closed_; }
  arrow::Result<std::int64_t> Tell() const override { return written_; }

  /// Return the error of a write that has failed, else that of `status`.
  Error error(const arrow::Status& status) const;

 private:
  const OutputPlace file_;
  std::int64_t written_ = 0;
  bool closed_ = false;
  std::optional<Error> failed_;
};

}  // namespace train
