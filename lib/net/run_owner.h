// This file proves who owns a run. All users of a cluster share its token, so the owner of a run is
// the user who has the run's key, the seed of an Ed25519 key (RFC 8032). The run's id ends in a
// digest of the public key. So every traind can recognize the owner, even one that has just
// started, and nobody else can claim the run first. The owner never sends the key itself: another
// user's process may be answering at a node's address.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace train {

/// Make a key: 32 random bytes as hex digits.
std::string make_owner_key();
/// Return whether a file's text is such a key, and not only a part that a crash left.
bool is_owner_key(std::string_view text);
/// Return the 32 hex digits in which the id of a run with that key ends.
std::string owner_digest(std::string_view owner_key);

struct OwnerProof {
  std::string public_key, signature;  // 32 and 64 bytes
};

/// Prove ownership over one connection. Only its two ends know its `binding`
/// (Connection::binding()), so the proof is worthless over another one.
OwnerProof prove_owner(std::string_view owner_key, std::string_view run_id,
                       std::uint64_t generation, std::string_view binding);
/// Return whether the run belongs to the process that made this proof. A run whose id does not end
/// in such a digest belongs to nobody.
bool owns_run(std::string_view run_id, std::uint64_t generation, std::string_view binding,
              const OwnerProof& proof);

}  // namespace train
