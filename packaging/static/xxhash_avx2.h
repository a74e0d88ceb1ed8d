// XXH3 compiled for AVX2: only for processors that have it.
#pragma once

#include <xxhash.h>

#include <cstddef>

extern "C" {
XXH64_hash_t trainrun_xxh3_64bits_avx2(const void* bytes, std::size_t size);
XXH128_hash_t trainrun_xxh3_128bits_avx2(const void* bytes, std::size_t size);
XXH_errorcode trainrun_xxh3_64bits_update_avx2(XXH3_state_t* state, const void* bytes,
                                               std::size_t size);
XXH_errorcode trainrun_xxh3_128bits_update_avx2(XXH3_state_t* state, const void* bytes,
                                                std::size_t size);
}
