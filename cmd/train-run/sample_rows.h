// Tables of samples as JSON for programs.
#pragma once

#include <boost/json/array.hpp>

#include "lib/samples/sample_table.h"

namespace train {

/// Return an object for each row: its rank, node or GPU, then its columns. Values that are not
/// known are null or "".
boost::json::array sample_rows(const SampleTable& table);

}  // namespace train
