// Whose a run is. The token of a cluster is shared by all its users; a run's owner is who has the
// run's key, the seed of an Ed25519 key (RFC 8032). The run's id ends in a mark of its public half,
// so every traind can tell, also one that has just been started, and nobody else can come first.
// The key itself is shown to nobody: whoever answers at a node's address may be another user's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace train {

/// 32 random bytes as hex digits.
std::string make_owner_key();
/// Whether a file holds one: what a crash left of it does not count.
bool is_owner_key(std::string_view text);
/// What the id of a run with that key ends in: 32 hex digits.
std::string owner_mark(std::string_view owner_key);

struct OwnerProof {
  std::string public_key, signature;  // 32 and 64 bytes
};

/// For one connection, whose `binding` is known to its two ends only (Connection::binding()), so
/// that it proves nothing over another one.
OwnerProof prove_owner(std::string_view owner_key, std::string_view run_id,
                       std::uint64_t generation, std::string_view binding);
/// Whether the run is of whoever made this proof. An id without a mark is nobody's.
bool owns_run(std::string_view run_id, std::uint64_t generation, std::string_view binding,
              const OwnerProof& proof);

}  // namespace train
