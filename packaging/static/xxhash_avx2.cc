// Compiled with -mavx2. XXH_INLINE_ALL makes all of xxHash static here, so that no other file gets
// these instructions. A state is the same for every kind of processor.
#define XXH_INLINE_ALL
#include "packaging/static/xxhash_avx2.h"

XXH64_hash_t trainrun_xxh3_64bits_avx2(const void* bytes, std::size_t size) {
  return XXH3_64bits(bytes, size);
}

XXH128_hash_t trainrun_xxh3_128bits_avx2(const void* bytes, std::size_t size) {
  return XXH3_128bits(bytes, size);
}

XXH_errorcode trainrun_xxh3_64bits_update_avx2(XXH3_state_t* state, const void* bytes,
                                               std::size_t size) {
  return XXH3_64bits_update(state, bytes, size);
}

XXH_errorcode trainrun_xxh3_128bits_update_avx2(XXH3_state_t* state, const void* bytes,
                                                std::size_t size) {
  return XXH3_128bits_update(state, bytes, size);
}
