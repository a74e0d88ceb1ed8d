#include "lib/stacks/byte_codec.h"

#include <algorithm>

namespace train {

void ByteWriter::number(std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(value >> (8 * i) & 0xFF);
}

void ByteWriter::text(std::string_view text, std::size_t bytes_max) {
  const std::string_view kept = text.substr(0, bytes_max);
  number(kept.size(), 4);
  out_ += kept;
}

void ByteReader::fail() {
  ok_ = false;
  rest_ = {};
}

std::uint64_t ByteReader::number(int bytes) {
  if (rest_.size() < static_cast<std::size_t>(bytes)) {
    fail();
    return 0;
  }
  std::uint64_t value = 0;
  for (int i = 0; i < bytes; ++i)
    value |= std::uint64_t{static_cast<std::uint8_t>(rest_[static_cast<std::size_t>(i)])}
             << (8 * i);
  rest_.remove_prefix(static_cast<std::size_t>(bytes));
  return value;
}

std::string_view ByteReader::text(std::size_t bytes_max) {
  const std::uint64_t size = number(4);
  if (size > bytes_max || size > rest_.size()) {
    fail();
    return {};
  }
  const std::string_view text = rest_.substr(0, size);
  rest_.remove_prefix(size);
  return text;
}

std::size_t ByteReader::count(std::size_t count_max, std::size_t bytes_each) {
  const std::uint64_t count = number(4);
  if (count > count_max || count > rest_.size() / std::max<std::size_t>(bytes_each, 1)) {
    fail();
    return 0;
  }
  return count;
}

}  // namespace train
