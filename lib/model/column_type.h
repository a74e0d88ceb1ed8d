// The names of the column types that a spec may give for text files (datasets.*.schema). lib/data
// turns them into Arrow's types; the launcher checks them before any worker starts.
#pragma once

#include <array>
#include <string_view>

namespace train {

inline constexpr std::array<std::string_view, 15> kColumnTypes{
    "bool",   "int8",    "int16",   "int32",  "int64",  "uint8",  "uint16",   "uint32",
    "uint64", "float32", "float64", "string", "binary", "date32", "timestamp"};

}  // namespace train
