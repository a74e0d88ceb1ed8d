// xxh3 digests of streams: 128 bits for files and manifests, 64 for journal lines. They detect
// damage, not malice.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "lib/model/digest.h"

namespace train {

Digest digest_of(std::string_view bytes);
std::uint64_t digest64_of(std::string_view bytes);

/// Digest a stream piece by piece. Not thread-safe.
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  void update(std::string_view bytes);
  Digest digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace train
