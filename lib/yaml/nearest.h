// This file finds the known word closest to a mistyped one, for "Did you mean".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace train::yaml {

/// Return the number of edits (insert, delete, replace, swap of neighbours) that turn one word into
/// the other; case does not count.
int edit_distance(std::string_view a, std::string_view b);

/// Return the closest candidate, or "" if none is close enough to be what the user meant. In a tie,
/// the first wins.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace train::yaml
