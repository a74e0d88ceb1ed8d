// How rows become samples of WebDataset: which member of a sample each column is, and its bytes.
// The names are those by which the webdataset package decodes members, and our reader tells types.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct MemberField {
  enum class Kind { Bytes, Text, Number, Json, Array };
  Kind kind = Kind::Bytes;
  int column = 0;
  std::string name;  // of the member, behind the key and a dot: "jpg"
};

struct SampleFields {
  std::vector<MemberField> fields = {};
  int key_column = -1;  // of `__key__`; −1: keys are the rows' numbers
};

/// Choose the members. `first` has the first row, whose bytes tell pictures from other bytes. The
/// error names a column that can be none.
Result<SampleFields> sample_fields(const arrow::RecordBatch& first);

/// Return the content of a member. `row` is a row of `rows`. The error says why it has none.
Result<std::string> sample_content(const MemberField& field, const arrow::RecordBatch& rows,
                                   std::int64_t row);
/// Return the key of a row. `number`: the row's, of the whole output.
Result<std::string> sample_key(const SampleFields& fields, const arrow::RecordBatch& rows,
                               std::int64_t row, std::int64_t number);

}  // namespace train
