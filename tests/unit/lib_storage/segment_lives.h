// Owners of a journal in an object store, and checks that hold whatever happens to them.
// journal_segments_test.cc runs the real segments and wrong ones through it.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "lib/storage/journal.h"
#include "lib/storage/journal_segments.h"
#include "tests/fakes/object_store.h"
#include "tests/fakes/store.h"

namespace train {

inline constexpr std::uint64_t kFewSegments = 3;  // until a segment begins anew

/// JournalSegments, or wrong ones.
class Segments {
 public:
  virtual ~Segments() = default;
  virtual Result<std::string> read() = 0;
  virtual Result<Unit> append(std::string_view lines,
                              const std::function<Result<std::string>()>& whole) = 0;
  virtual Result<Unit> check() = 0;
};
using OpenSegments = std::function<std::unique_ptr<Segments>(ObjectStore&)>;
std::unique_ptr<Segments> right_segments(ObjectStore& store);

/// One launcher: its disk with events.jsonl, the segments, and what it was told.
class SegmentOwner {
 public:
  SegmentOwner(int id, std::shared_ptr<fakes::MemoryObjects> objects, OpenSegments open)
      : id_(id), store(std::move(objects)), open_(std::move(open)) {}

  /// Read what is there, and take the next generation. Return false if that fails.
  bool take_over();
  /// Append a group of `count` records. Return false if it is refused.
  bool append(int count);
  bool check();
  bool fenced() const { return fenced_; }
  Generation generation() const { return generation_; }

 private:
  friend class SegmentRun;
  bool resolve(const Result<Unit>& wrote, const std::vector<JournalRecord>& group);
  void note(std::string what) { violations_.push_back(std::move(what)); }

  const int id_;
  int events_ = 0;

 public:
  fakes::MemoryObjectStore store;

 private:
  OpenSegments open_;
  std::unique_ptr<fakes::MemoryFileSystem> disk_;
  std::unique_ptr<Segments> segments_;
  std::unique_ptr<Journal> journal_;
  Generation generation_;
  bool fenced_ = false;
  std::vector<JournalRecord> certain_;  // found at the opening, or acknowledged since
  std::vector<std::string> refused_;    // events of groups that nothing has followed
  std::set<std::string> never_;         // events that no reader may see again
  std::vector<std::string> violations_;
};

/// A run that several launchers own one after the other.
class SegmentRun {
 public:
  explicit SegmentRun(OpenSegments open = right_segments) : open_(std::move(open)) {}

  SegmentOwner& owner();
  const std::vector<std::unique_ptr<SegmentOwner>>& owners() const { return owners_; }
  /// Return what is wrong with what a new reader finds or an owner saw, or "".
  std::string violation();

  const std::shared_ptr<fakes::MemoryObjects> objects = std::make_shared<fakes::MemoryObjects>();

 private:
  OpenSegments open_;
  std::vector<std::unique_ptr<SegmentOwner>> owners_;
};

}  // namespace train
