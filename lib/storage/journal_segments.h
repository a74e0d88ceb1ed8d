// The journal of a run in an object store: numbered segments, each put on the condition that its
// number is free. So they are the run's lock as well: whoever puts the next one owns the run, and
// an earlier owner that lives on finds its own next number taken and is fenced. FORMAT.md section
// 7. All calls block; one thread at a time.
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
  /// That a reader has to ask for, one by one; then a segment begins anew.
  static constexpr std::uint64_t kSegmentsMax = 200;

  explicit JournalSegments(ObjectStore& store, std::uint64_t segments_max = kSegmentsMax)
      : store_(store), segments_max_(segments_max) {}

  /// The text of events.jsonl as it was acknowledged; empty where the run is new. Later puts come
  /// after what was read here. May be called while an owner writes. Corrupt: a segment is missing.
  Result<std::string> read();

  /// Put `lines`, one group of records. `whole` is the text with them: the first segment of an
  /// owner, and each that begins anew, has it. Two owners never put the same bytes: an owner's
  /// first group says who it is. Fenced: another launcher has put the next one; no later call
  /// works. After any other error the same or another group may be tried again, and a reader takes
  /// the later one; before that it may find either.
  Result<Unit> append(std::string_view lines, const std::function<Result<std::string>()>& whole);
  /// Fenced unless this is still the newest owner.
  Result<Unit> check();

 private:
  Result<Unit> settle_doubt();
  Result<Unit> check_newest();
  Error taken() const;
  void remove_replaced();

  ObjectStore& store_;
  const std::uint64_t segments_max_;
  std::uint64_t next_ = 1;
  std::uint64_t first_own_ = 0;   // 0: nothing was put yet
  std::uint64_t base_ = 0;        // our newest segment that begins with the first record
  std::vector<Digest> in_doubt_;  // of what was to be put as next_ and may be, or come to be, there
};

}  // namespace train
