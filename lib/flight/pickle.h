// Reads Python's pickle format as data: numbers, texts, lists, tuples and dicts, as LibTorch's
// flight recorder writes them. Anything that would call or import something is an error. Pure; the
// bytes may be anybody's.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kPickleBytesMax = 8u << 20;
inline constexpr std::size_t kPickleValuesMax = 1u << 20;
inline constexpr std::size_t kPickleKeysMax = 256;

/// The values of a pickle. Texts refer to its bytes, which must outlive this object. A list may
/// contain itself: do not follow values without a bound.
class Pickle {
 public:
  using Index = std::uint32_t;
  enum class Kind { None, Bool, Integer, Real, Text, List, Dict };

  static Result<Pickle> read(std::string_view bytes);

  Index root() const { return root_; }
  Kind kind(Index value) const { return values_[value].kind; }
  std::optional<std::int64_t> integer(Index value) const;
  bool is_true(Index value) const;
  std::string_view text(Index value) const { return values_[value].text; }  // "" if it is none
  /// Return the items of a list or tuple; those of a dict are keys and values in turn.
  const std::vector<Index>& items(Index value) const { return values_[value].items; }
  /// Return the value of a text key among the first 256 of a dict: a few bytes can make many dicts
  /// of a long one.
  std::optional<Index> find(Index dict, std::string_view key) const;

 private:
  friend class PickleReader;
  struct Value {
    Kind kind = Kind::None;
    std::int64_t integer = 0;
    std::string_view text = {};
    std::vector<Index> items = {};
  };
  std::vector<Value> values_;
  Index root_ = 0;
};

}  // namespace train
