// Writes and reads the numbers and texts of a frame, little-endian. Whatever bytes it reads, it
// stays within them, and allocates no more than they hold.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace train::data {

class Packer {
 public:
  template <class T>
  requires std::is_integral_v<T> Packer& number(T value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t byte = 0; byte < sizeof(T); ++byte, bits >>= 8)
      bytes_.push_back(static_cast<char>(bits & 0xff));
    return *this;
  }
  Packer& text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : bytes_(bytes) {}

  template <class T>
  requires std::is_integral_v<T> Unpacker& number(T& value) {
    if (bytes_.size() < sizeof(T)) {
      fail();
      return *this;
    }
    std::uint64_t bits = 0;
    for (std::size_t byte = 0; byte < sizeof(T); ++byte)
      bits |= std::uint64_t{static_cast<unsigned char>(bytes_[byte])} << (8 * byte);
    bytes_.remove_prefix(sizeof(T));
    value = static_cast<T>(bits);
    return *this;
  }
  Unpacker& text(std::string& value) {
    std::uint32_t size = 0;
    number(size);
    if (size > bytes_.size()) {
      fail();
      return *this;
    }
    value.assign(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return *this;
  }
  /// Read how many entries follow, each of at least `entry_bytes` bytes; 0 if there cannot be as
  /// many.
  std::size_t count(std::size_t entry_bytes) {
    std::uint32_t entries = 0;
    number(entries);
    if (entries <= bytes_.size() / entry_bytes) return entries;
    fail();
    return 0;
  }
  void fail() {
    failed_ = true;
    bytes_ = {};
  }
  /// Return whether all was there, and nothing else.
  bool done() const { return !failed_ && bytes_.empty(); }

 private:
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace train::data
