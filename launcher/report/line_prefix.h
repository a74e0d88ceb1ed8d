// What stands in front of a worker's line on the terminal: "[gpu-1 3] ", "[gpu-1 3 reader] " in a
// job of several roles, "[0-3,5] " for a line of several ranks, or what --log-line-prefix says, as
// torchrun's --log-line-prefix-template. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// A worker as its prefix names it.
struct LineOrigin {
  std::string node;
  std::int32_t rank = 0;
  std::int32_t local_rank = 0;
  std::string role = {};  // empty in a job of one role
};

class LinePrefix {
 public:
  /// The prefix that needs no option.
  LinePrefix() = default;
  /// Parse a template: ${rank}, ${local_rank}, ${node}, ${attempt}, ${run} and $$, everything else
  /// as it is; also torchrun's ${role_name} and ${hostname} (the node). A name
  /// needs no braces. InvalidArgument names what is wrong.
  static Result<LinePrefix> parse(std::string_view text, std::string_view run);

  /// Return the prefix of a line that these workers have printed; they are sorted by rank.
  std::string of(std::span<const LineOrigin* const> origins, std::uint32_t attempt) const;

 private:
  enum class Part { Text, Rank, LocalRank, Node, Role, Attempt };
  struct Piece {
    Part part = Part::Text;
    std::string text = {};
  };
  std::optional<std::vector<Piece>> pieces_;  // unset: no template
};

}  // namespace train
