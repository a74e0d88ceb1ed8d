// Reads the parts of a pass that a rank asks for, as rows of the files: what an ingest worker does
// before the maps. One thread uses a reader at a time.
#pragma once

#include <map>
#include <memory>

#include "lib/data/batch_reader.h"
#include "lib/data/plan/lane_plan.h"
#include "lib/data/serve/messages.h"

namespace train::data {

class LaneReader {
 public:
  /// `layout`: of the source's units. An error if it is not that of the rank, or if there cannot be
  /// such a pass.
  static Result<std::unique_ptr<LaneReader>> make(std::shared_ptr<const RowSource> source,
                                                  const UnitLayout& layout, const OpenPass& pass,
                                                  std::shared_ptr<DatasetMeters> meters = {});

  /// Return the rows of a step at some addresses; all count as valid. InvalidArgument if they are
  /// no addresses of the pass, NotFound if the step has no rows there.
  Result<ReadBatch> read(std::int64_t step, const AddressSet& addresses);

 private:
  LaneReader(std::shared_ptr<const RowSource> source, ShardPlan plan,
             std::shared_ptr<DatasetMeters> meters);
  void begin();

  std::shared_ptr<const RowSource> source_;
  std::shared_ptr<DatasetMeters> meters_;
  ShardPlan whole_;
  std::shared_ptr<LanePlan> plan_;  // shared with the reader
  std::map<AddressSet, std::size_t> sets_;
  std::unique_ptr<BatchReader> reader_;
};

}  // namespace train::data
