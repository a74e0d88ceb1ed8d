// The journal of a run in an object store: numbered segments, each put on the condition that its
// number is free. So they are the run's lock as well: whoever puts the next one owns the run, and
// an earlier owner that lives on finds its own next number taken and is fenced. FORMAT.md section
// 6. All calls block; one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/storage/object_store.h"

namespace train {

class JournalSegments {
 public:
  explicit JournalSegments(ObjectStore& store) : store_(store) {}

  /// The text of events.jsonl as it was acknowledged; empty where the run is new. Later puts come
  /// after what was read here.
  Result<std::string> read();

  /// Put `lines`, one group of records. `whole` is the text with them, for when a segment that
  /// begins anew saves a reader many requests. Fenced: another launcher has put the next one. After
  /// any other error the same or another group may be tried again; a reader takes the later one.
  Result<Unit> append(std::string_view lines, const std::function<Result<std::string>()>& whole);
  /// Fenced unless this is still the newest owner.
  Result<Unit> check() const;

 private:
  Result<Unit> settle_doubt();
  Error taken(std::uint64_t number) const;
  void remove_replaced();

  ObjectStore& store_;
  std::uint64_t next_ = 1;
  std::uint64_t first_own_ = 0;  // 0: nothing was put yet
  std::uint64_t base_ = 0;       // our newest segment that begins with the first record
  std::string doubtful_;         // was to be put as next_, and nobody knows whether it is there
};

}  // namespace train
