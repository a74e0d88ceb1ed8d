// Memory that a worker and its supervisor share, behind the record of a crash: what the operators
// of the worker's datasets do. The SDK counts there with plain stores, for each batch and unit and
// never for a row; the supervisor can read it whatever state the worker is in.
//
// The worker may write anything at any time, so the reader trusts no field.
#pragma once

#include "lib/model/data_operator.h"
#include "lib/progress/progress_page.h"

namespace train {

/// One operator. All times are nanoseconds of CLOCK_MONOTONIC. Each number has one writer at a
/// time.
struct OperatorSlot {
  using Number = ProgressPage::Number;

  Number kind{0};
  Number rows{0}, bytes{0};
  Number busy{0};           // without the time since working_since
  Number waited{0};         // of Batch: for room; of Loop: for input; without waiting_since
  Number working_since{0};  // 0: not at work
  Number waiting_since{0};  // 0: not waiting
  Number queue_bytes{0};
  ProgressPage::Text<kDataNameBytesMax> dataset, map;
};

/// The operators of a dataset follow each other in the order of a row's way.
struct DataPage {
  OperatorSlot::Number used{0};  // slots; each is complete before it counts
  std::array<OperatorSlot, kDataOperatorsMax> slots{};
};

}  // namespace train
