// Whose a run is. The token of a cluster is shared by all its users; a run's owner is who has the
// run's key. The run's id ends in a mark of the key, so every traind can tell, also one that has
// just been started, and nobody else can come first.
#pragma once

#include <string>
#include <string_view>

namespace train {

/// 32 random bytes as hex digits.
std::string make_owner_key();
/// Whether a file holds one: what a crash left of it does not count.
bool is_owner_key(std::string_view text);
/// What the id of a run with that key ends in: 32 hex digits.
std::string owner_mark(std::string_view owner_key);
/// Whether the run is of whoever shows this key. An id without a mark is nobody's.
bool owns_run(std::string_view run_id, std::string_view owner_key);

}  // namespace train
