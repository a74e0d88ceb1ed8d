// The journal in an object store with every cut, every lost answer, and two owners in any order:
// acknowledged records are read again, refused ones do not come back, and only one owner goes on.
// Mutants then test the checker.
#include "lib/storage/journal_segments.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <random>

#include "tests/unit/lib_storage/segment_lives.h"
#include "tests/unit/lib_storage/turns.h"

namespace train {
namespace {

using fakes::Fault;

/// Cause two or more compactions.
void work(SegmentOwner& owner) {
  for (const int count : {2, 1, 3, 1, 1, 2, 1, 1, 1}) {
    (void)owner.append(count);
    if (owner.fenced()) return;
  }
}

/// One launcher meets a fault at operation `n`, perhaps another one later; then the next launcher
/// takes over. live() returns false if the first had finished before.
struct Faults {
  std::uint64_t at = 0;
  Fault fault = Fault::EndsBefore;
  std::uint64_t late = 0;  // operations until a late one arrives; 0: at the takeover
  std::uint64_t ends = 0;  // operations until it then ends
};
bool live(const Faults& faults, const OpenSegments& open, std::string& wrong) {
  SegmentRun run(open);
  SegmentOwner& first = run.owner();
  std::uint64_t operation = 0;
  bool more_to_come = faults.ends != 0;
  first.store.before_each([&](const std::string&) {
    ++operation;
    if (faults.late != 0 && operation == faults.at + faults.late) run.objects->deliver_late();
    if (operation == faults.at + 1 && std::exchange(more_to_come, false))
      first.store.at(faults.ends, Fault::EndsBefore);
  });
  first.store.at(faults.at, faults.fault);
  if (!first.take_over() && !first.store.ended()) (void)first.take_over();
  if (first.generation() != Generation{}) work(first);
  const bool reached = first.store.operations() >= faults.at + faults.ends;
  wrong = run.violation();
  if (!wrong.empty()) return reached;

  SegmentOwner& second = run.owner();
  if (!second.take_over()) wrong = "the second cannot take over";
  run.objects->deliver_late();
  if (wrong.empty() && !second.append(2)) wrong = "the second cannot append";
  if (wrong.empty() && first.generation() != Generation{} && !first.store.ended()) {
    if (first.check()) wrong = "the first does not notice by check()";
    if (first.append(1)) wrong = "the first's group is acknowledged";
  }
  for (int n = 0; n < 10 && wrong.empty(); ++n)  // until a segment begins anew, twice
    if (!second.append(1) || !second.check()) wrong = "the second cannot go on";
  if (wrong.empty() && first.generation() != Generation{} && !first.store.ended() &&
      first.append(1))
    wrong = "the first's group is acknowledged later";
  if (wrong.empty()) wrong = run.violation();
  return reached;
}

std::string describe(const Faults& faults) {
  return fmt::format("at {} fault {} late {} ends {}", faults.at, static_cast<int>(faults.fault),
                     faults.late, faults.ends);
}

/// Return the first violation of all single faults; count the lives.
std::string single_faults(const OpenSegments& open, std::uint64_t& lives) {
  std::string wrong;
  for (const Fault fault : {Fault::EndsBefore, Fault::EndsAfter, Fault::Fails, Fault::AnswerIsLost,
                            Fault::ArrivesLate}) {
    for (const std::uint64_t late : {0, 1, 2, 3, 4, 6}) {
      if (fault != Fault::ArrivesLate && late != 0) continue;
      for (Faults faults{.at = 1, .fault = fault, .late = late};; ++faults.at, ++lives) {
        const bool reached = live(faults, open, wrong);
        if (!wrong.empty()) return describe(faults) + ": " + wrong;
        if (!reached) break;
      }
    }
  }
  return {};
}

TEST(JournalSegments, KeepEveryAcknowledgedGroupAtAnyFault) {
  std::uint64_t lives = 0;
  EXPECT_EQ(single_faults(right_segments, lives), "");
  EXPECT_GE(lives, 150u);
}

TEST(JournalSegments, KeepEveryAcknowledgedGroupAtAnyFaultAndACrashLater) {
  std::string wrong;
  for (const Fault fault : {Fault::Fails, Fault::AnswerIsLost, Fault::ArrivesLate})
    for (const std::uint64_t ends : {1, 2, 3, 4, 5, 7, 9})
      for (Faults faults{.at = 1, .fault = fault, .late = 2, .ends = ends};; ++faults.at) {
        const bool reached = live(faults, right_segments, wrong);
        ASSERT_EQ(wrong, "") << describe(faults);
        if (!reached) break;
      }
}

/// Three launchers take over the run again and again, and all meet faults.
std::string random_life(std::uint64_t seed, const OpenSegments& open) {
  SegmentRun run(open);
  Turns turns(seed);
  std::vector<std::function<void()>> programs;
  for (std::size_t i = 0; i < 3; ++i) {
    SegmentOwner& owner = run.owner();
    owner.store.before_each([&turns, i](const std::string&) { turns.wait(i); });
    programs.push_back([&owner, &run, seed, i] {
      std::mt19937_64 random(seed * 3 + i);
      constexpr std::array kFaults = {Fault::Fails, Fault::AnswerIsLost, Fault::ArrivesLate,
                                      Fault::EndsBefore, Fault::EndsAfter};
      for (int life = 0; life < 3; ++life) {
        owner.store.at(1 + random() % 30, kFaults[random() % (life == 2 ? 5 : 3)]);
        if (!owner.take_over()) continue;
        for (int n = 0; n < 12 && !owner.fenced(); ++n) {
          (void)owner.append(1 + static_cast<int>(random() % 3));
          if (random() % 8 == 0) run.objects->deliver_late();
        }
      }
    });
  }
  turns.run(programs);
  for (const auto& owner : run.owners()) owner->store.before_each({});
  run.objects->deliver_late();
  return run.violation();
}

TEST(JournalSegments, HaveOneOwnerInAnyOrderOfThree) {
  for (std::uint64_t seed = 1; seed <= 250; ++seed)
    ASSERT_EQ(random_life(seed, right_segments), "") << "seed " << seed;
}

TEST(JournalSegments, OfTwoThatTakeOverAtOnceOneWins) {
  for (std::uint64_t n = 1;; ++n) {
    SegmentRun run;
    ASSERT_TRUE(run.owner().take_over());
    SegmentOwner& one = run.owner();
    SegmentOwner& other = run.owner();
    bool other_won = false, met = false;
    one.store.before_each([&](const std::string&) {
      if (one.store.operations() + 1 != n || std::exchange(met, true)) return;
      other_won = other.take_over();
    });
    const bool won = one.take_over();
    if (!met) return;
    ASSERT_TRUE(other_won);
    ASSERT_EQ(one.fenced(), !won);
    // The other replaces whoever came before its list; else that one is fenced immediately.
    ASSERT_NE(one.check(), other.check()) << n;
    ASSERT_EQ(run.violation(), "");
  }
}

TEST(JournalSegments, AreReadWhileTheirOwnerBeginsAnew) {
  for (std::uint64_t n = 1;; ++n) {
    SegmentRun run;
    SegmentOwner& owner = run.owner();
    ASSERT_TRUE(owner.take_over());
    ASSERT_TRUE(owner.append(1) && owner.append(1));
    fakes::MemoryObjectStore store(run.objects);
    bool met = false;
    store.before_each([&](const std::string&) {
      if (store.operations() + 1 != n || std::exchange(met, true)) return;
      for (int i = 0; i < 7; ++i) ASSERT_TRUE(owner.append(1));
    });
    JournalSegments reader(store, kFewSegments);
    const auto text = reader.read();
    ASSERT_FALSE(text.has_error()) << text.error().describe();
    const JournalReplay replay = replay_journal(*text);
    ASSERT_FALSE(replay.damage);
    ASSERT_GE(replay.records.size(), 3u);
    if (!met) return;
  }
}

TEST(JournalSegments, ThatWereReplacedAreRemovedButForTheFirst) {
  SegmentRun run;
  SegmentOwner& owner = run.owner();
  ASSERT_TRUE(owner.take_over());
  for (int n = 0; n < 50; ++n) ASSERT_TRUE(owner.append(1));

  const auto keys = run.objects->keys();
  EXPECT_EQ(keys.front(), "journal/000001.jsonl");
  EXPECT_EQ(keys.back(), "journal/000051.jsonl");
  EXPECT_LE(keys.size(), 2 + kFewSegments);
}

TEST(JournalSegments, SayWhichOneIsMissing) {
  SegmentRun run;
  SegmentOwner& owner = run.owner();
  ASSERT_TRUE(owner.take_over());
  ASSERT_TRUE(owner.append(1) && owner.append(1));
  run.objects->remove("journal/000002.jsonl");

  fakes::MemoryObjectStore store(run.objects);
  const auto text = JournalSegments(store).read();
  ASSERT_TRUE(text.has_error());
  EXPECT_EQ(text.error().code, Errc::Corrupt);
  EXPECT_EQ(text.error().message,
            "a segment of the run's journal is missing: GET 'journal/000002.jsonl': 404");
}

TEST(JournalSegments, WithAFlippedBitNeverLookLikeAShorterJournal) {
  SegmentRun run;
  SegmentOwner& owner = run.owner();
  ASSERT_TRUE(owner.take_over());
  ASSERT_TRUE(owner.append(2) && owner.append(1));
  const auto keys = run.objects->keys();
  ASSERT_EQ(keys.size(), 3u);
  for (const std::string& key : keys) {
    const std::uint64_t bits = run.objects->get(key).size() * 8;
    for (std::uint64_t bit = 0; bit < bits; ++bit) {
      const auto damaged = run.objects->copy();
      damaged->flip_bit(key, bit);
      fakes::MemoryObjectStore store(damaged);
      const auto text = JournalSegments(store).read();
      ASSERT_FALSE(text.has_error());
      const JournalReplay replay = replay_journal(*text);
      ASSERT_TRUE(replay.damage) << key << " bit " << bit;
      // As in a file, damage in the last group looks like a torn tail.
      ASSERT_EQ(replay.damage->torn_tail, key == keys.back()) << key << " bit " << bit;
      ASSERT_EQ(replay.records.size(), key == keys.back()    ? 3u
                                       : key == keys.front() ? 0u
                                                             : replay.records.size());
    }
  }
}

TEST(JournalSegments, ThatAreNoTextAreDamage) {
  for (const std::string_view text : {"", "\n", "\n\n", "x", "x\n\n"}) {
    const auto objects = std::make_shared<fakes::MemoryObjects>();
    objects->put("journal/000001.jsonl", text);
    objects->put("journal/000002.jsonl", text);
    objects->put("journal/notes.txt", "left alone");
    fakes::MemoryObjectStore store(objects);
    const auto read = JournalSegments(store).read();
    ASSERT_FALSE(read.has_error());
    EXPECT_TRUE(text.empty() || replay_journal(*read).damage);
  }
}

enum class Wrong {
  Nothing,
  PutsUnconditionally,
  RemovesItsFirst,
  SkipsANumberInDoubt,     // continues after it without a look
  TakesWhatIsThereForOwn,  // for a number in doubt
  ChecksItsDoubtOnly,      // not what follows it
  RemovesBeforeItPuts,     // removes replaced segments before it puts the replacement
  TrustsItsFirst,          // an owner that lives on may have freed its number
  KeepsRefusedGroups,      // as a reader
  AcknowledgesErrors,
};

/// FORMAT.md section 7, in short form, with one error.
class MutantSegments final : public Segments {
 public:
  MutantSegments(ObjectStore& store, Wrong wrong) : store_(store), wrong_(wrong) {}

  Result<std::string> read() override {
    if (wrong_ != Wrong::KeepsRefusedGroups) {
      TRY(next_, newest());
      ++next_;
      return JournalSegments(store_).read();
    }
    std::string text;
    TRY(const std::uint64_t last, newest());
    for (std::uint64_t n = last; n > 0; --n) {
      TRY(const std::string segment, store_.get(key_of(n), kJournalBytesMax));
      text = segment + text;
      if (segment.starts_with("{\"seq\":1,")) break;
    }
    next_ = last + 1;
    return text;
  }

  Result<Unit> append(std::string_view lines,
                      const std::function<Result<std::string>()>& whole) override {
    TRY_VOID(resolve());
    const bool anew = first_ == 0 || next_ - base_ >= kFewSegments;
    std::string text(lines);
    if (anew) {
      TRY(text, whole());
    }
    if (anew && wrong_ == Wrong::RemovesBeforeItPuts) remove_replaced(next_);
    const auto put = wrong_ == Wrong::PutsUnconditionally ? store_.put(key_of(next_), text)
                                                          : store_.put_new(key_of(next_), text);
    if (put.has_error()) {
      if (put.error().code == Errc::AlreadyExists) {
        if (!doubt_.empty() && wrong_ != Wrong::SkipsANumberInDoubt) {
          TRY_VOID(resolve());
          return append(lines, whole);
        }
        return Error{Errc::Fenced, "taken"};
      }
      doubt_.push_back(text);
      if (wrong_ == Wrong::SkipsANumberInDoubt) ++next_;
      if (wrong_ == Wrong::AcknowledgesErrors) return Unit{};
      return put.error();
    }
    doubt_.clear();
    if (first_ == 0 && wrong_ != Wrong::TrustsItsFirst) {
      doubt_ = {text};
      TRY(const std::uint64_t last, newest());
      doubt_.clear();
      if (last != next_) return Error{Errc::Fenced, "taken"};
    }
    const std::uint64_t number = next_++;
    if (first_ == 0) first_ = number;
    if (anew && number != first_ && wrong_ != Wrong::RemovesBeforeItPuts) remove_replaced(number);
    if (anew) base_ = number;
    return Unit{};
  }

  Result<Unit> check() override {
    if (wrong_ != Wrong::ChecksItsDoubtOnly) TRY_VOID(resolve());
    const auto there = store_.get(key_of(next_), kJournalBytesMax);
    if (there.has_error() && there.error().code == Errc::NotFound) return Unit{};
    if (there.has_error()) return there.error();
    if (std::find(doubt_.begin(), doubt_.end(), *there) != doubt_.end()) return Unit{};
    return Error{Errc::Fenced, "taken"};
  }

 private:
  static std::string key_of(std::uint64_t n) { return fmt::format("journal/{:06}.jsonl", n); }
  Result<std::uint64_t> newest() {
    TRY(const auto listed, store_.list("journal"));
    std::uint64_t last = 0;
    for (const StoredObject& one : listed)
      last = std::max<std::uint64_t>(last, std::stoull(one.key.substr(8, 6)));
    return last;
  }
  Result<Unit> resolve() {
    if (doubt_.empty() || wrong_ == Wrong::SkipsANumberInDoubt) return Unit{};
    const auto there = store_.get(key_of(next_), kJournalBytesMax);
    if (there.has_error() && there.error().code != Errc::NotFound) return there.error();
    if (there.has_error()) return Unit{};
    if (wrong_ != Wrong::TakesWhatIsThereForOwn &&
        std::find(doubt_.begin(), doubt_.end(), *there) == doubt_.end())
      return Error{Errc::Fenced, "taken"};
    ++next_;
    doubt_.clear();
    return Unit{};
  }
  void remove_replaced(std::uint64_t before) {
    const std::uint64_t kept = wrong_ == Wrong::RemovesItsFirst ? first_ : first_ + 1;
    for (std::uint64_t n = std::max(base_, kept); n < before; ++n) (void)store_.remove(key_of(n));
  }

  ObjectStore& store_;
  const Wrong wrong_;
  std::uint64_t next_ = 1, first_ = 0, base_ = 0;
  std::vector<std::string> doubt_;
};

std::string caught(Wrong wrong) {
  const OpenSegments open = [wrong](ObjectStore& store) {
    return std::make_unique<MutantSegments>(store, wrong);
  };
  std::uint64_t lives = 0;
  if (std::string found = single_faults(open, lives); !found.empty()) return found;
  for (std::uint64_t seed = 1; seed <= 100; ++seed)
    if (std::string found = random_life(seed, open); !found.empty())
      return fmt::format("seed {}: {}", seed, found);
  return {};
}

TEST(SegmentMutant, WithNothingWrongIsNotCaught) { EXPECT_EQ(caught(Wrong::Nothing), ""); }

class SegmentMutants : public testing::TestWithParam<std::pair<Wrong, const char*>> {};

TEST_P(SegmentMutants, AreCaught) {
  const std::string how = caught(GetParam().first);
  ASSERT_NE(how, "");
  std::cout << how << "\n";
}

INSTANTIATE_TEST_SUITE_P(
    Each, SegmentMutants,
    testing::Values(std::pair(Wrong::PutsUnconditionally, "PutsUnconditionally"),
                    std::pair(Wrong::RemovesItsFirst, "RemovesItsFirst"),
                    std::pair(Wrong::SkipsANumberInDoubt, "SkipsANumberInDoubt"),
                    std::pair(Wrong::TakesWhatIsThereForOwn, "TakesWhatIsThereForOwn"),
                    std::pair(Wrong::ChecksItsDoubtOnly, "ChecksItsDoubtOnly"),
                    std::pair(Wrong::RemovesBeforeItPuts, "RemovesBeforeItPuts"),
                    std::pair(Wrong::TrustsItsFirst, "TrustsItsFirst"),
                    std::pair(Wrong::KeepsRefusedGroups, "KeepsRefusedGroups"),
                    std::pair(Wrong::AcknowledgesErrors, "AcknowledgesErrors")),
    [](const auto& info) { return std::string(info.param.second); });

}  // namespace
}  // namespace train
