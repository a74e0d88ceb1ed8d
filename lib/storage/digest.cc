#include "lib/storage/digest.h"

#ifdef TRAIN_XXHASH_DISPATCH
#include <xxh_x86dispatch.h>  // the same digests, with the widest instructions of this processor
#else
#include <xxhash.h>
#endif

#include "lib/base/check.h"

namespace train {
Digest digest_of(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return Digest{hash.high64, hash.low64};
}

std::uint64_t digest64_of(std::string_view bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

// XXH3_createState aligns the state to 64 bytes, as it requires.
struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  TRAIN_CHECK(state_->xxh != nullptr, "no memory for a hash state");
  XXH3_128bits_reset(state_->xxh);
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::update(std::string_view bytes) {
  XXH3_128bits_update(state_->xxh, bytes.data(), bytes.size());
}

Digest Hasher::digest() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh);
  return Digest{hash.high64, hash.low64};
}

}  // namespace train
