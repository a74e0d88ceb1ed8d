// The worker's side of data_page.h: counts what the operators of one dataset do. The code of the
// data plane calls it for each unit and batch. What it counts, anybody may read at any time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/progress/data_page.h"

namespace train {

/// Counts one operator. One thread at a time.
class DataMeter {
 public:
  explicit DataMeter(OperatorSlot& slot) : slot_(&slot) {}

  void passed(std::int64_t rows, std::int64_t bytes);
  /// Count work that another process has done.
  void worked(std::int64_t ns);
  void begin_work(std::uint64_t now);
  void end_work(std::uint64_t now);
  void begin_wait(std::uint64_t now);
  void end_wait(std::uint64_t now);
  void set_queue(std::int64_t bytes);

  const OperatorSlot& slot() const { return *slot_; }

 private:
  OperatorSlot* slot_;
};

class DatasetMeters {
 public:
  /// Count in free slots of the page, which outlives this object, or privately, if it is full.
  /// `maps`: their names, in their order.
  DatasetMeters(DataPage& page, std::string_view dataset, bool filters,
                const std::vector<std::string>& maps);
  DatasetMeters(const DatasetMeters&) = delete;
  DatasetMeters& operator=(const DatasetMeters&) = delete;

  DataMeter& index() { return meters_.front(); }
  DataMeter& decode() { return meters_[1]; }
  /// The last operator that makes rows of a unit: the filter if there is one, else decode().
  DataMeter& rows_of_unit() { return meters_[filters_ ? 2 : 1]; }
  bool filters() const { return filters_; }
  DataMeter& gather() { return meters_[filters_ ? 3 : 2]; }
  DataMeter& map(std::size_t index) { return meters_[(filters_ ? 4 : 3) + index]; }
  DataMeter& batch() { return meters_[meters_.size() - 2]; }
  DataMeter& loop() { return meters_.back(); }

  /// Return how many operators there are, and one of them: those before gather(), gather() and the
  /// maps do what an ingest worker may do.
  std::size_t size() const { return meters_.size(); }
  DataMeter& at(std::size_t index) { return meters_[index]; }

  std::vector<DataOperator> read(std::uint64_t now) const;

  /// Has an operator at work for as long as this object lives, and nothing else of this dataset:
  /// what was at work before goes on afterwards. Only for the thread that reads. `meters` may be
  /// null: then nothing is counted.
  class Working {
   public:
    Working(DatasetMeters* meters, DataMeter& (DatasetMeters::*which)());
    Working(DatasetMeters* meters, DataMeter* which);
    ~Working();
    Working(const Working&) = delete;
    Working& operator=(const Working&) = delete;

   private:
    DatasetMeters* const meters_;
    DataMeter* before_ = nullptr;
  };

 private:
  void add(DataPage& page, std::string_view dataset, OperatorKind kind, std::string_view map);
  void put_to_work(DataMeter* next);

  const bool filters_;
  std::vector<std::unique_ptr<OperatorSlot>> private_slots_;
  std::vector<DataMeter> meters_;
  DataMeter* at_work_ = nullptr;
};

}  // namespace train
