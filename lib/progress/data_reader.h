// Reads what the operators of a worker's datasets have counted (data_page.h).
#pragma once

#include <cstdint>
#include <vector>

#include "lib/progress/data_page.h"

namespace train {

/// Return what one slot says. The page may contain anything: the kind is brought into its range,
/// the texts into valid UTF-8 without control characters. `now`: of progress_now(); what began
/// before it and has not ended is counted up to it. Without the waits that follow from others.
DataOperator read_operator(const OperatorSlot& slot, std::uint64_t now);

/// Set what operators of one thread have waited for: it does one of them at a time, so each waits
/// for input while an earlier one is at work, and for room while a later one is, or the thread
/// itself waits for room. `operators` are in the order of a row's way; those of different datasets
/// do not matter to each other.
void set_waits(std::vector<DataOperator>& operators);

/// Return the operators in the page, at most kDataOperatorsMax.
std::vector<DataOperator> read_data(const DataPage& page, std::uint64_t now);

}  // namespace train
