// xxh3 digests of streams: 128 bits for files and manifests, 64 for journal lines. Detects damage,
// not malice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace train {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  bool operator==(const Digest&) const = default;
};

/// 32 lower-case hex digits, the high half first (what `xxhsum -H128` prints).
std::string to_hex(const Digest& digest);
/// Nothing unless `hex` is exactly 32 lower-case hex digits.
std::optional<Digest> parse_digest(std::string_view hex);

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
