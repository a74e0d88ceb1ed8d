// A file that `data convert` writes: rows go in chunk by chunk, and finish() completes it. The
// caller owns the descriptor, syncs and renames the file. The same rows in the same chunks give the
// same bytes.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Append rows, which become what readers decode at once.
  virtual Result<Unit> write(const std::shared_ptr<arrow::RecordBatch>& rows) = 0;
  virtual Result<Unit> finish() = 0;
};

enum class OutputFormat { Parquet, Arrow, WebDataset };

/// "parquet", "arrow" or "webdataset".
Result<OutputFormat> output_format(std::string_view name);
/// Return "parquet", "arrow" or "tar": how the files' names end.
std::string_view ending_of(OutputFormat format);
/// Return the bytes of decoded rows that a chunk should have.
std::int64_t chunk_bytes_of(OutputFormat format);

struct OutputPlace {
  int fd = -1;
  std::string path;            // for messages
  std::int64_t first_row = 0;  // of the output
};
using NewOutput = Result<std::unique_ptr<OutputFile>>;

NewOutput new_parquet_file(const OutputPlace& file, const std::shared_ptr<arrow::Schema>& schema);
NewOutput new_arrow_file(const OutputPlace& file, const std::shared_ptr<arrow::Schema>& schema);

struct SampleFields;  // sample_fields.h
NewOutput new_webdataset_file(const OutputPlace& file, std::shared_ptr<const SampleFields> fields);

}  // namespace train
