// The safetensors file format (github.com/huggingface/safetensors, "Format"): an 8-byte
// little-endian length, a JSON header that names each tensor's dtype, shape and bytes, then the
// bytes. Pure: header text to entries and back, no tensors, no files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train::sdk {

struct TensorEntry {
  std::string name = {};
  std::string dtype = {};  // "F32"; the list is dtype_bytes()
  std::vector<std::int64_t> shape = {};
  std::uint64_t begin = 0, end = 0;  // after the header
  bool operator==(const TensorEntry&) const = default;
};

struct TensorFile {
  std::vector<TensorEntry> tensors;             // sorted by begin
  std::map<std::string, std::string> metadata;  // the header's "__metadata__"
  std::uint64_t data_offset = 0;                // of the first byte after the header
  bool operator==(const TensorFile&) const = default;
};

constexpr std::size_t kHeaderLengthBytes = 8;
constexpr std::uint64_t kHeaderBytesMax = 100'000'000;  // the format's own limit

/// Return the bytes of one element; 0 for a dtype that the format does not have.
std::uint64_t dtype_bytes(std::string_view dtype);

/// Lay the tensors out one after another (this sets begin and end), and return the file's
/// beginning: length and header, padded with spaces so that the data is aligned to 8 bytes.
std::string make_header(TensorFile& file);

/// Return the length of the header, without the length field itself, that a file's first bytes
/// state; 0 if there are too few bytes.
std::uint64_t header_length(std::string_view bytes);

/// Read a header from the file's first bytes; `file_bytes` is the size of the whole file. Checks
/// what the format requires: no holes, no overlap, and each length equal to its shape's. Errors:
/// Corrupt.
Result<TensorFile> parse_header(std::string_view bytes, std::uint64_t file_bytes);

}  // namespace train::sdk
