// The header of a NumPy file (.npy), as NEP 1 and numpy.lib.format describe it: what one array is
// and where its values begin. Pure: the bytes are the file's first ones, and anybody may have
// written them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

/// How many bytes of a file read_numpy_header() needs at most.
inline constexpr std::size_t kNumpyHeaderMax = 64 << 10;

struct NumpyHeader {
  std::string type;                 // "<f4", "|u1", …: byte order, kind, bytes
  std::vector<std::int64_t> shape;  // the first is the rows; none is negative
  std::int64_t values_at = 0;       // the byte of the file at which the values begin
};

/// Read the header. An error for what is none, for arrays in Fortran's order and for structured
/// types.
Result<NumpyHeader> read_numpy_header(std::string_view bytes);

}  // namespace train::data
