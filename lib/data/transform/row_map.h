// The maps that a spec may name without code (lib/model/built_in_maps.h): each changes one column
// of the rows of a batch, and keeps their number. Chance comes from a seed for each row, so that a
// row becomes the same wherever and whenever it is mapped.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/transform/pixels.h"
#include "lib/data/transform/resize.h"

namespace train::data {

/// One map of a spec and its arguments; each map uses some of them.
struct BuiltInMapSpec {
  std::string name = {};
  std::string column = {};  // empty: label for one_hot, image for the others
  ImageSize size = {};
  ImageMode mode = ImageMode::Rgb;
  int padding = 0;
  bool vertical = false;
  double probability = 0.5;
  std::vector<double> mean = {}, std = {};
  std::string type = {};
  double factor = 1, offset = 0;
  std::int64_t classes = 0;
};

/// A row that cannot be decoded. Its value is what comes of zeros.
struct BadRow {
  std::int64_t row = 0;  // of the batch
  Error why;
};

/// What a map makes of a column.
class ColumnMap {
 public:
  virtual ~ColumnMap() = default;
  /// Return the type of what apply() makes of a column of this type; an error that says what the
  /// map needs if there is none.
  virtual Result<std::shared_ptr<arrow::DataType>> output(
      const std::shared_ptr<arrow::DataType>& in) const = 0;
  /// Map the values of a type that output() took. `seeds`: one for each of them. Appends rows that
  /// cannot be decoded to `bad`, in their order. Several threads may call this.
  virtual Result<std::shared_ptr<arrow::Array>> apply(const std::shared_ptr<arrow::Array>& values,
                                                      const std::vector<std::uint64_t>& seeds,
                                                      std::vector<BadRow>& bad) const = 0;
};

/// Make the map of that name; an error if there is none.
Result<std::unique_ptr<ColumnMap>> make_column_map(const BuiltInMapSpec& spec);

class RowMap {
 public:
  static Result<RowMap> make(BuiltInMapSpec spec);

  const std::string& name() const { return spec_.name; }
  /// Return the columns after the map. An error names the column that is missing or of another
  /// kind.
  Result<std::shared_ptr<arrow::Schema>> output(const arrow::Schema& in) const;
  /// Map the rows of a batch, as ColumnMap::apply() does.
  Result<std::shared_ptr<arrow::RecordBatch>> apply(const arrow::RecordBatch& rows,
                                                    const std::vector<std::uint64_t>& seeds,
                                                    std::vector<BadRow>& bad) const;

 private:
  RowMap(BuiltInMapSpec spec, std::unique_ptr<ColumnMap> map)
      : spec_(std::move(spec)), map_(std::move(map)) {}
  Result<int> column_of(const arrow::Schema& schema) const;

  BuiltInMapSpec spec_;
  std::unique_ptr<ColumnMap> map_;
};

}  // namespace train::data
