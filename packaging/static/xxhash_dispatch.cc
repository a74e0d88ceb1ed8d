// The functions of <xxh_x86dispatch.h> that trainrun calls, which an archive of xxHash lacks: with
// AVX2 where the processor has it, else as compiled for every x86-64.
#include "packaging/static/xxhash_avx2.h"

namespace {

bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has;
}

}  // namespace

extern "C" {

XXH64_hash_t XXH3_64bits_dispatch(const void* bytes, std::size_t size) {
  return has_avx2() ? trainrun_xxh3_64bits_avx2(bytes, size) : XXH3_64bits(bytes, size);
}

XXH128_hash_t XXH3_128bits_dispatch(const void* bytes, std::size_t size) {
  return has_avx2() ? trainrun_xxh3_128bits_avx2(bytes, size) : XXH3_128bits(bytes, size);
}

XXH_errorcode XXH3_64bits_update_dispatch(XXH3_state_t* state, const void* bytes,
                                          std::size_t size) {
  return has_avx2() ? trainrun_xxh3_64bits_update_avx2(state, bytes, size)
                    : XXH3_64bits_update(state, bytes, size);
}

XXH_errorcode XXH3_128bits_update_dispatch(XXH3_state_t* state, const void* bytes,
                                           std::size_t size) {
  return has_avx2() ? trainrun_xxh3_128bits_update_avx2(state, bytes, size)
                    : XXH3_128bits_update(state, bytes, size);
}

}  // extern "C"
