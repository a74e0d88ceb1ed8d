// Shows a value of a row in a few words. The texts are those of the data: print_out makes them safe
// for a terminal.
#pragma once

#include <arrow/type_fwd.h>
#include <train/config.h>

#include <cstdint>
#include <string>

namespace train {

/// Return "3", "'a text'", "<3072 bytes ff d8 ff e0 …>", "[1, 2, 3, … 400 in all]".
std::string shown_value(const arrow::Array& column, std::int64_t row);

/// Return the value for JSON: a bool, a number or a text (cut to 1000 bytes) as such, null for
/// null, and anything else as shown_value() shows it.
Value json_of_value(const arrow::Array& column, std::int64_t row);

}  // namespace train
