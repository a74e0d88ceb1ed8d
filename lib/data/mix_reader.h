// Carries out a MixPlan: reads each dataset's rows of a step with a BatchReader of its own, lets
// the dataset's maps change them, and puts them together. One thread uses a reader at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lib/data/batch_reader.h"
#include "lib/data/plan/mix_plan.h"

namespace train::data {

/// A dataset of a mix.
struct MixSource {
  std::string name = {};
  std::shared_ptr<const RowSource> rows = {};
  UnitLayout layout = {};
  OrderSpec order = {};
  /// Its maps, for rows of an epoch.
  std::function<Result<ReadBatch>(ReadBatch, std::uint64_t epoch)> map = {};
};

/// Return the epoch that pass `pass` of a dataset is, in an epoch of the mix.
std::uint64_t epoch_of_pass(std::uint64_t mix_epoch, std::int64_t pass);

class MixReader final : public BatchSource {
 public:
  /// `meters` count what it does, of all datasets together; null: nobody does.
  MixReader(std::vector<MixSource> sources, std::shared_ptr<const MixPlan> plan,
            std::uint64_t epoch, std::shared_ptr<DatasetMeters> meters = {});

  /// Return batch `index`. An error if the datasets' rows have different columns.
  Result<ReadBatch> read(std::int64_t index) override;

 private:
  struct Pass {
    std::int64_t pass = -1;
    std::unique_ptr<BatchReader> reader;
  };
  Result<ReadBatch> read_part(const MixPart& part, std::int64_t index);

  std::vector<MixSource> sources_;
  std::shared_ptr<const MixPlan> plan_;
  std::uint64_t epoch_;
  std::shared_ptr<DatasetMeters> meters_;
  std::vector<Pass> passes_;  // of each source, the newest
};

}  // namespace train::data
