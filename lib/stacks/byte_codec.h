// Writes and reads little-endian numbers and texts with a length in front. The reader never reads
// beyond its input: after the first value that does not fit, it is not ok() and returns zeros.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace train {

class ByteWriter {
 public:
  void number(std::uint64_t value, int bytes = 8);
  /// Write a text; what exceeds `bytes_max` is cut off.
  void text(std::string_view text, std::size_t bytes_max);
  std::string take() && { return std::move(out_); }

 private:
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view input) : rest_(input) {}

  std::uint64_t number(int bytes = 8);
  std::string_view text(std::size_t bytes_max);
  /// Read the number of elements that follow. Each takes at least `bytes_each`, so that a count
  /// cannot make its reader allocate more than its input has.
  std::size_t count(std::size_t count_max, std::size_t bytes_each);
  bool flag() { return number(1) != 0; }

  bool ok() const { return ok_; }
  /// Return whether everything was read, and nothing is left.
  bool complete() const { return ok_ && rest_.empty(); }

 private:
  void fail();

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace train
