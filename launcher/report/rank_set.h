// Sets of ranks as people write them: "0-3,7". Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/result.h"

namespace train {

class RankSet {
 public:
  /// Parse "3", "0-3,7" or "0,1,2". Ranges may overlap, and come in any order. InvalidArgument says
  /// which part is wrong.
  static Result<RankSet> parse(std::string_view text);

  bool contains(std::int32_t rank) const;
  /// Return whether it names exactly one rank, in whatever way.
  bool single() const;
  /// Return the first rank that `has` does not hold, or nothing if it holds all.
  template <class Has>
  std::optional<std::int32_t> first_missing(const Has& has) const {
    for (const auto& [first, last] : ranges_)
      for (std::int32_t rank = first; rank <= last; ++rank)
        if (!has(rank)) return rank;
    return std::nullopt;
  }

 private:
  std::vector<std::pair<std::int32_t, std::int32_t>> ranges_;  // first and last, both included
};

}  // namespace train
