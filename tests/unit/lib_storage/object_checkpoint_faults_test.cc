// Checkpoints in an object store with every cut, every lost answer, and two launchers in any order:
// acknowledged ones stay intact, nothing listed is broken, and nothing is left behind. Mutants then
// test the checker.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <iostream>
#include <random>
#include <set>

#include "tests/unit/lib_storage/object_launcher.h"
#include "tests/unit/lib_storage/turns.h"

namespace train {
namespace {

/// Save one checkpoint after the other, in two attempts.
void work(Launcher& launcher, Generation generation, std::uint64_t first,
          const std::function<Result<Unit>()>& may_commit = kYes) {
  for (std::uint64_t n = 0; n < 5; ++n) {
    const PendingCheckpoint pending{generation, Attempt{static_cast<std::uint32_t>(n / 3)},
                                    CheckpointSeq{n}};
    (void)launcher.save(pending, first + n, may_commit);
    if (launcher.handle->ended()) return;
  }
}

/// One launcher meets a fault at operation `n`. The next one opens, perhaps with a fault too, and
/// goes on. Return false if the first had finished before.
bool live(std::uint64_t n, Fault fault, std::uint64_t next_ends, const Protocol& protocol,
          std::string& wrong) {
  const auto objects = std::make_shared<MemoryObjects>();
  Launcher first(objects, protocol);
  first.handle->at(n, fault);
  (void)first.store.open(Generation{1});
  if (!first.handle->ended()) work(first, Generation{1}, 1);
  const bool reached = first.handle->operations() >= n;
  if (wrong = broken(objects, first.acknowledged); !wrong.empty()) return reached;
  if (next_ends != 0) {
    Launcher cut(objects, protocol);
    cut.handle->at(next_ends, Fault::EndsAfter);
    (void)cut.store.open(Generation{2});
    if (wrong = broken(objects, first.acknowledged); !wrong.empty()) return reached;
  }
  Launcher next(objects, protocol);
  if (const auto opened = next.store.open(Generation{3}); opened.has_error()) {
    wrong = "cannot open: " + opened.error().describe();
    return reached;
  }
  objects->deliver_late();
  wrong = broken(objects, first.acknowledged);
  // The launcher after this one removes what arrives only now.
  if (wrong.empty() && fault != Fault::ArrivesLate) wrong = left_over(objects);
  if (!wrong.empty()) return reached;
  const auto number = next.store.next_number();
  if (const auto saved = next.save({Generation{3}, Attempt{2}, CheckpointSeq{1}}, number->value);
      !saved)
    wrong = "the next cannot save: " + saved.error().describe();
  if (wrong.empty()) wrong = broken(objects, next.acknowledged);
  return reached;
}

std::string all_faults(const Protocol& protocol, std::uint64_t& lives) {
  std::string wrong;
  for (const Fault fault :
       {Fault::EndsBefore, Fault::EndsAfter, Fault::Fails, Fault::AnswerIsLost, Fault::ArrivesLate})
    for (const std::uint64_t next_ends : {0, 4}) {
      if (next_ends != 0 && fault != Fault::EndsAfter) continue;
      for (std::uint64_t n = 1;; ++n, ++lives) {
        const bool reached = live(n, fault, next_ends, protocol, wrong);
        if (!wrong.empty())
          return fmt::format("fault {} at {}, then {}: {}", static_cast<int>(fault), n, next_ends,
                             wrong);
        if (!reached) break;
      }
    }
  return {};
}

TEST(ObjectCheckpoints, StayWholeAtAnyFault) {
  std::uint64_t lives = 0;
  EXPECT_EQ(all_faults({}, lives), "");
  EXPECT_GE(lives, 300u);
}

/// An owner and a launcher that takes the run from it, in any order. The first checks that it still
/// owns the run just before each commit, like RunLock::check. The second knows of the first only
/// what is in its memory.
std::string two_launchers(std::uint64_t seed, const Protocol& protocol) {
  const auto objects = std::make_shared<MemoryObjects>();
  Launcher first(objects, protocol), second(objects, protocol);
  Turns turns(seed);
  std::mt19937_64 random(seed);
  const std::uint64_t pause = random() % 90;
  first.handle->at(1 + random() % 150, random() % 2 == 0 ? Fault::AnswerIsLost : Fault::Fails);
  first.handle->before_each([&](const std::string&) { turns.wait(0); });
  second.handle->before_each([&](const std::string&) { turns.wait(1); });
  bool taken = false;  // one thread runs at a time
  std::set<std::uint64_t> before;
  std::string wrong;
  turns.run({[&] {
               (void)first.store.open(Generation{1});
               work(first, Generation{1}, 1, [&]() -> Result<Unit> {
                 if (taken) return Error{Errc::Fenced, "replaced"};
                 return Unit{};
               });
             },
             [&] {
               for (std::uint64_t n = 0; n < pause; ++n) turns.wait(1);
               taken = true;
               const auto opened = second.store.open(Generation{2});
               if (opened.has_error()) {
                 wrong = "cannot open: " + opened.error().describe();
                 return;
               }
               const auto number = second.store.next_number();
               for (std::uint64_t n = 0; n < 3; ++n) {
                 const PendingCheckpoint pending{Generation{2}, Attempt{7}, CheckpointSeq{n}};
                 if (const auto saved = second.save(pending, number->value + n);
                     !saved && saved.error().code != Errc::AlreadyExists)
                   wrong = "cannot save: " + saved.error().describe();
               }
             }});
  first.handle->before_each({});
  second.handle->before_each({});
  if (wrong.empty()) wrong = broken(objects, second.acknowledged);
  return wrong;
}

TEST(ObjectCheckpoints, OfTheOwnerAreSafeFromTheOneBeforeInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed)
    ASSERT_EQ(two_launchers(seed, {}), "") << "seed " << seed;
}

Result<std::string> manifest_text(const CommitRequest& request) {
  TRY(Manifest manifest, manifest_of(request));
  for (ManifestFile& file : manifest.files)
    file.at = fmt::format("{}/rank-{:04}", data_name(request.pending), file.ranks.front().value);
  return format_manifest(manifest);
}

struct Mutant {
  const char* name;
  Protocol protocol;
};

std::vector<Mutant> mutants() {
  std::vector<Mutant> all(4);
  all[0].name = "RemovesDataBeforeTheManifest";
  all[0].protocol.remove = [](auto& store, ObjectStore& objects,
                              CheckpointNumber number) -> Result<Unit> {
    TRY(const Manifest manifest, store.verify(number));
    for (const ManifestFile& file : manifest.files)
      TRY_VOID(objects.remove(fmt::format("checkpoints/{}/{}", file.at, file.path)));
    return objects.remove(manifest_key(number));
  };
  all[1].name = "PutsTheManifestUnconditionallyAndAlone";
  all[1].protocol.commit = [](auto&, ObjectStore& objects, const CommitRequest& request,
                              const auto& may_commit) -> Result<Unit> {
    TRY(const std::string text, manifest_text(request));
    TRY_VOID(may_commit());
    return objects.put(manifest_key(request.number), text);
  };
  all[2].name = "DiscardsWhatMayBeCommitted";
  all[2].protocol.commit = [](auto& store, ObjectStore& objects, const CommitRequest& request,
                              const auto& may_commit) -> Result<Unit> {
    auto done = store.commit(request, may_commit);
    if (!done.has_error()) return Unit{};
    const std::string folder = "checkpoints/" + data_name(request.pending);
    TRY(const auto uploaded, objects.list(folder));
    for (const StoredObject& one : uploaded) TRY_VOID(objects.remove(one.key));
    return done.error();
  };
  all[3].name = "AcknowledgesErrors";
  all[3].protocol.commit = [](auto& store, ObjectStore&, const CommitRequest& request,
                              const auto& may_commit) -> Result<Unit> {
    (void)store.commit(request, may_commit);
    return Unit{};
  };
  return all;
}

TEST(ObjectCheckpointMutants, AreCaught) {
  for (const Mutant& mutant : mutants()) {
    std::uint64_t lives = 0;
    std::string how = all_faults(mutant.protocol, lives);
    for (std::uint64_t seed = 1; how.empty() && seed <= 100; ++seed)
      how = two_launchers(seed, mutant.protocol);
    EXPECT_NE(how, "") << mutant.name;
    std::cout << mutant.name << ": " << how << "\n";
  }
}

// The run is taken while a commit is on its way: the data may be removed only once the commit must
// fail.
TEST(ObjectCheckpointMutants, WithoutAClosedNumberWouldBeCaught) {
  const auto objects = std::make_shared<MemoryObjects>();
  Launcher first(objects);
  ASSERT_TRUE(first.store.open(Generation{1}));
  const auto shards = *first.upload(kOne);
  const auto late = first.store.commit(request_of(kOne, 1, shards), [&]() -> Result<Unit> {
    Launcher next(objects);
    EXPECT_TRUE(next.store.open(Generation{2}));
    EXPECT_EQ(broken(objects, {}), "");
    objects->remove(manifest_key(CheckpointNumber{1}));  // as if the next launcher did not close it
    return Unit{};
  });
  ASSERT_TRUE(late);
  EXPECT_NE(broken(objects, {}), "");
}

}  // namespace
}  // namespace train
