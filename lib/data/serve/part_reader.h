// What an ingest worker does for one pass of one rank: it reads parts of the rank's batches.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lib/data/serve/messages.h"

namespace train::data {

/// The rows of a step at some addresses, in the order in which the batch has them. See Answer.
struct PartRows {
  std::shared_ptr<arrow::RecordBatch> rows = {};
  std::vector<RowError> bad = {};
  std::vector<std::int64_t> lost = {};
  std::vector<std::uint32_t> counts = {};
  std::vector<OperatorShare> operators = {};
};

class PartReader {
 public:
  virtual ~PartReader() = default;
  /// One thread uses a reader at a time.
  virtual Result<PartRows> read(std::int64_t step, const AddressSet& addresses) = 0;
};

/// Make a reader for a pass. Any thread.
using OpenPart = std::function<Result<std::unique_ptr<PartReader>>(const OpenPass& pass)>;

}  // namespace train::data
