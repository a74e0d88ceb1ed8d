// The journal of a run in an object store consists of numbered segments. Each is put on the
// condition that its number is free, so the segments are also the run's lock. The launcher that
// puts the next segment owns the run; an earlier owner that is still alive finds its own next
// number taken and is fenced. FORMAT.md section 7. All calls block; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/storage/digest.h"
#include "lib/storage/object_store.h"

namespace train {

class JournalSegments {
 public:
  /// How many segments a reader must request one by one at most: after so many, a segment begins
  /// anew with the whole text.
  static constexpr std::uint64_t kSegmentsMax = 200;

  explicit JournalSegments(ObjectStore& store, std::uint64_t segments_max = kSegmentsMax)
      : store_(store), segments_max_(segments_max) {}

  /// Return the acknowledged text of events.jsonl; empty if the run is new. Later puts continue
  /// after it. May be called while an owner writes. Corrupt: a segment is missing.
  Result<std::string> read();

  /// Put `lines`, one group of records. `whole` returns the text including them, for an owner's
  /// first segment and each segment that begins anew. Two owners never put the same bytes, because
  /// an owner's first group names the owner. Fenced: another launcher has put the next segment, and
  /// all later calls fail. After any other error the caller may try the same or another group, and
  /// readers use the later one; until then they may find either state.
  Result<Unit> append(std::string_view lines, const std::function<Result<std::string>()>& whole);
  /// Return Fenced unless we are still the newest owner.
  Result<Unit> check();

 private:
  Result<Unit> resolve_doubt();
  Result<Unit> check_newest();
  Error taken() const;
  void remove_replaced();

  ObjectStore& store_;
  const std::uint64_t segments_max_;
  std::uint64_t next_ = 1;
  std::uint64_t first_own_ = 0;  // 0: we have put none yet
  std::uint64_t base_ = 0;       // our newest segment that begins with the first record
  // Digests of texts that we put as next_ and that may exist or still arrive.
  std::vector<Digest> in_doubt_;
};

}  // namespace train
