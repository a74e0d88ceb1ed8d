// The preprocessors and the maps of one dataset, in their order: they run on the rows of a batch
// after the shuffle, on the reading thread. Rows keep their order, and but for flat maps their
// number; rows that cannot be decoded make room for repeats of others.
#pragma once

#include <train/dataset.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/batch_reader.h"
#include "lib/data/serve/part_reader.h"
#include "lib/data/transform/preprocessor_fit.h"
#include "lib/data/transform/row_map.h"
#include "lib/progress/dataset_meters.h"
#include "sdk/data/bad_rows.h"
#include "sdk/data/dataset_spec.h"
#include "sdk/data/map_registry.h"

namespace train::sdk {

class MapChain {
 public:
  /// Prepare the dataset's maps. An error names the map that there is none of, or whose columns are
  /// missing or of another kind than it needs.
  /// The preprocessors come first.
  static Result<std::shared_ptr<const MapChain>> make(
      std::string dataset, const DatasetSpec& spec,
      const std::shared_ptr<const data::RowSource>& source,
      std::vector<data::FittedPreprocessor> preprocessors = {});

  /// Return the columns after the maps, as far as they are known: before the first registered map.
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }
  /// Return whether a map is the program's: then the columns of the rows are known when it runs.
  bool has_registered() const {
    return std::any_of(maps_.begin(), maps_.end(),
                       [](const Map& map) { return !map.built_in.has_value(); });
  }
  /// Return the first map that may change how many rows there are; none: empty.
  std::string flat_map() const;
  /// Map a batch of this epoch. `meters` count what each map does; null: nobody does.
  Result<data::ReadBatch> apply(data::ReadBatch batch, std::uint64_t epoch,
                                DatasetMeters* meters = nullptr) const;
  /// Do the same in an ingest worker, for a rank that joins several parts. All rows of the part
  /// count as valid, and bad rows are left for the rank to count.
  Result<data::PartRows> apply_to_part(data::ReadBatch batch, std::uint64_t epoch,
                                       DatasetMeters* meters) const;
  /// Leave a row out that an ingest worker has found to be bad, or return the error that ends the
  /// pass.
  Result<Unit> leave_out(std::int64_t unit, std::int64_t row, Error why) const {
    return bad_rows_.add(unit, row, std::move(why));
  }
  /// Return how many rows are left out so far.
  std::int64_t bad_rows() const { return bad_rows_.count(); }

 private:
  struct Map {
    std::string name;
    std::optional<data::RowMap> built_in;
    RegisteredMap registered;  // else
    Config arguments;          // of a registered one
  };
  struct Place;
  struct Mapped;
  struct Part;

  MapChain(std::string dataset, const DatasetSpec& spec,
           const std::shared_ptr<const data::RowSource>& source);
  Result<Unit> add(const MapStep& step);
  Result<data::ReadBatch> apply(data::ReadBatch batch, std::uint64_t epoch, DatasetMeters* meters,
                                Part* part) const;
  Result<Unit> apply_one(std::size_t index, Mapped& mapped) const;
  Result<Unit> apply(const MapFunction& map, Mapped& mapped, const MapContext& context) const;
  Result<Unit> apply(const FlatMapFunction& map, Mapped& mapped, const MapContext& context) const;
  Result<Unit> take_out(std::vector<data::BadRow> bad, Mapped& mapped) const;

  const std::string dataset_;
  const std::uint64_t seed_;
  std::vector<data::FittedPreprocessor> preprocessors_;
  std::vector<Map> maps_;
  std::shared_ptr<arrow::Schema> schema_;
  mutable BadRows bad_rows_;
};

}  // namespace train::sdk
