// This file proves who owns a run. All users of a cluster share its token, so the owner of a run is
// whoever has the run's key, the seed of an Ed25519 key (RFC 8032). The run's id ends in a mark of
// the public half. So every traind can tell the owner, even one that has just been started, and
// nobody else can claim the run first. The owner shows the key itself to nobody: whoever answers at
// a node's address may be another user's process.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace train {

/// Make a key: 32 random bytes as hex digits.
std::string make_owner_key();
/// Return whether a file's text is such a key. What a crash left of one does not count.
bool is_owner_key(std::string_view text);
/// Return the mark in which the id of a run with that key ends: 32 hex digits.
std::string owner_digest(std::string_view owner_key);

struct OwnerProof {
  std::string public_key, signature;  // 32 and 64 bytes
};

/// Prove ownership over one connection, whose `binding` only its two ends know
/// (Connection::binding()), so that the proof is worth nothing over another one.
OwnerProof prove_owner(std::string_view owner_key, std::string_view run_id,
                       std::uint64_t generation, std::string_view binding);
/// Return whether the run belongs to whoever made this proof. A run whose id has no mark belongs to
/// nobody.
bool owns_run(std::string_view run_id, std::uint64_t generation, std::string_view binding,
              const OwnerProof& proof);

}  // namespace train
