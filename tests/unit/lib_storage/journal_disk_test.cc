// The journal on a full, broken or read-only disk, and with another owner: what it answers, what is
// left, and that it goes on when it can.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"
#include "tests/fakes/store.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;
namespace json = boost::json;

const std::string kPath = "/run/events.jsonl";
const std::string kTime = "2026-11-21T09:38:00.123456Z";

json::object event(int n) { return {{"event", "worker_exited"}, {"rank", n}}; }

/// A folder with a journal that holds its generation and one event.
struct OnDisk {
  MemoryFileSystem disk;
  std::unique_ptr<Journal> journal;
  OnDisk() {
    disk.put("/run/", "");
    journal = Journal::open(disk, kPath).value();
    EXPECT_EQ(*journal->take_generation(kTime, {}), Generation{1});
    EXPECT_FALSE(journal->append({event(0)}, kTime).has_error());
  }
  /// Return the ranks that are there after a power cut that leaves only durable data.
  std::vector<std::int64_t> ranks() const {
    const auto replay = read_journal(*disk.after_power_cut(0), kPath);
    EXPECT_EQ(replay->damage, std::nullopt);
    std::vector<std::int64_t> ranks;
    for (const JournalRecord& record : replay->records)
      if (const auto* rank = record.event.if_contains("rank")) ranks.push_back(rank->as_int64());
    return ranks;
  }
};

using Ranks = std::vector<std::int64_t>;

TEST(JournalDisk, FullTakesNothingAndGoesOnWhenThereIsSpaceAgain) {
  OnDisk on;
  on.disk.set_space(150);  // for one line of a group of two

  const auto refused = on.journal->append({event(1), event(2)}, kTime);

  EXPECT_EQ(refused.error(),
            (Error{Errc::NoSpace,
                   "records 3 to 4 are not in the journal: writing '/run/events.jsonl': No space "
                   "left on device",
                   "free some space on the disk of '/run'; the journal then continues"}));
  EXPECT_EQ(on.ranks(), (Ranks{0}));
  EXPECT_EQ(read_journal(*on.disk.after_kill(), kPath)->damage, std::nullopt);
  on.disk.set_space(5000);
  EXPECT_FALSE(on.journal->append({event(3)}, kTime).has_error());
  EXPECT_EQ(on.ranks(), (Ranks{0, 3}));
}

TEST(JournalDisk, AFailedSyncIsNotTriedAgainButTheGroupIsWrittenToANewFile) {
  OnDisk on;
  on.disk.fail_at(2, EIO);  // fails the sync after the write

  EXPECT_FALSE(on.journal->append({event(1)}, kTime).has_error());
  EXPECT_FALSE(on.journal->append({event(2)}, kTime).has_error());

  EXPECT_EQ(on.ranks(), (Ranks{0, 1, 2}));
  EXPECT_EQ(on.disk.syncs_after_failure(), 0);
  EXPECT_EQ(on.disk.tree("/run"), (std::vector<std::string>{"/run/events.jsonl"}));
}

TEST(JournalDisk, AFullDiskThatIsSeenAtTheSyncKeepsTheGroupForALaterFile) {
  OnDisk on;
  on.disk.fail_at(2, ENOSPC);
  on.disk.set_space(200);  // for the group, but not for a second file

  EXPECT_EQ(on.journal->append({event(1)}, kTime).error(),
            (Error{Errc::NoSpace,
                   "records 3 to 3 are not in the journal: writing '/run/.events.jsonl.tmp': No "
                   "space left on device",
                   "free some space on the disk of '/run'; the journal then continues"}));
  EXPECT_EQ(on.journal->append({event(2)}, kTime).error().code, Errc::NoSpace);
  on.disk.set_space(5000);
  EXPECT_FALSE(on.journal->append({event(3)}, kTime).has_error());

  EXPECT_EQ(on.ranks(), (Ranks{0, 3}));
  EXPECT_EQ(on.disk.syncs_after_failure(), 0);
  EXPECT_EQ(on.disk.tree("/run"), (std::vector<std::string>{"/run/events.jsonl"}));
}

TEST(JournalDisk, GoesOnAfterAnyOneChangeThatFails) {
  for (const int error_number : {EIO, ENOSPC, EROFS}) {
    for (std::uint64_t n = 1;; ++n) {
      OnDisk on;
      const std::uint64_t before = on.disk.changes();
      on.disk.fail_at(n, error_number);
      Ranks written = {0};
      for (int rank = 1; rank <= 3; ++rank)
        if (!on.journal->append({event(rank)}, kTime).has_error()) written.push_back(rank);
      ASSERT_GE(written.size(), 3U) << "change " << n;
      ASSERT_EQ(on.ranks(), written) << "change " << n;
      ASSERT_EQ(on.disk.syncs_after_failure(), 0) << "change " << n;
      if (on.disk.changes() - before < n) break;
    }
  }
}

TEST(JournalDisk, IsNotBelievedAfterTheSyncOfAnEarlierOwnerFailed) {
  OnDisk on;
  on.disk.fail_at(2, EIO);
  on.disk.cut_power_at(3);  // killed before it could write another file
  ASSERT_TRUE(on.journal->append({event(1)}, kTime).has_error());
  on.disk.start_again();

  auto later = Journal::open(on.disk, kPath);
  ASSERT_FALSE(later.has_error()) << later.error().describe();
  ASSERT_FALSE((*later)->take_generation(kTime, {}).has_error());
  ASSERT_FALSE((*later)->append({event(2)}, kTime).has_error());

  EXPECT_EQ(on.ranks(), (Ranks{0, 1, 2}));
  EXPECT_EQ(on.disk.syncs_after_failure(), 0);
}

TEST(JournalDisk, OpensAnewOrSaysWhyNotAtAnyFailedChange) {
  for (const int error_number : {EIO, ENOSPC, EROFS}) {
    for (std::uint64_t n = 1;; ++n) {
      OnDisk on;
      const std::string before = on.disk.get(kPath);
      const std::uint64_t changes = on.disk.changes();
      on.disk.fail_at(n, error_number);
      const auto failed = Journal::open(on.disk, kPath);
      if (on.disk.changes() - changes < n) break;
      ASSERT_TRUE(failed.has_error()) << "change " << n;
      ASSERT_TRUE(failed.error().message.starts_with("the journal cannot be opened for writing: "))
          << failed.error().message;
      ASSERT_NE(failed.error().message.find("'/run"), std::string::npos);
      ASSERT_NE(failed.error().hint, "");
      ASSERT_EQ(on.disk.get(kPath), before) << "change " << n;

      auto again = Journal::open(on.disk, kPath);
      ASSERT_FALSE(again.has_error()) << again.error().describe();
      ASSERT_EQ(*(*again)->take_generation(kTime, {}), Generation{2});
      ASSERT_EQ(on.ranks(), (Ranks{0})) << "change " << n;
      ASSERT_EQ(read_journal(*on.disk.after_power_cut(0), kPath)->generation(), Generation{2});
    }
  }
}

TEST(JournalDisk, KeepsToItsLimit) {
  OnDisk on;
  const std::uint64_t bytes = on.disk.get(kPath).size();
  auto journal = Journal::open(on.disk, kPath, {.bytes_max = bytes + 300});
  ASSERT_FALSE((*journal)->take_generation(kTime, {}).has_error());

  const auto refused = (*journal)->append({event(1), event(2)}, kTime);

  EXPECT_EQ(refused.error().code, Errc::ResourceExhausted);
  EXPECT_NE(refused.error().message.find("more would be over its limit of " +
                                         std::to_string(bytes + 300)),
            std::string::npos)
      << refused.error().message;
  EXPECT_FALSE((*journal)->append({event(3)}, kTime).has_error());
  EXPECT_EQ(on.ranks(), (Ranks{0, 3}));
}

TEST(JournalOwner, ThatWasReplacedIsFenced) {
  OnDisk on;
  const auto later = Journal::open(on.disk, kPath);
  ASSERT_EQ(*(*later)->take_generation(kTime, {}), Generation{2});

  const Error expected{
      Errc::Fenced,
      "records 3 to 3 are not in the journal: '/run/events.jsonl' was replaced meanwhile by "
      "another process",
      "only the run's owner may write it; `train-run status` shows who that is"};
  EXPECT_EQ(on.journal->append({event(1)}, kTime).error(), expected);
  EXPECT_EQ(on.journal->append({event(1)}, kTime).error(), expected);
  ASSERT_FALSE((*later)->append({event(2)}, kTime).has_error());

  EXPECT_EQ(on.ranks(), (Ranks{0, 2}));
}

/// A disk on which something else happens just before a file is made.
class BusyDisk : public MemoryFileSystem {
 public:
  std::function<void()> before_create = [] {};
  Result<std::unique_ptr<WritableFile>> create(const std::string& path) override {
    before_create();
    return MemoryFileSystem::create(path);
  }
};

// `resume --force` takes a run from a train-run that is just writing.
TEST(JournalOwner, FromWhomItIsTakenMayWriteALastGroup) {
  BusyDisk disk;
  disk.put("/run/", "");
  auto first = Journal::open(disk, kPath);
  ASSERT_EQ(*(*first)->take_generation(kTime, {}), Generation{1});
  int groups = 0;
  disk.before_create = [&] {
    if (groups < 3) EXPECT_FALSE((*first)->append({event(groups++)}, kTime).has_error());
  };

  auto later = Journal::open(disk, kPath);

  ASSERT_TRUE(later) << later.error().describe();
  EXPECT_EQ((*later)->replayed().records.size(), 4u);
  EXPECT_EQ(*(*later)->take_generation(kTime, {}), Generation{2});
  EXPECT_EQ((*first)->append({event(9)}, kTime).error().code, Errc::Fenced);
}

TEST(JournalOwner, WhoNeverStopsWritingKeepsIt) {
  BusyDisk disk;
  disk.put("/run/", "");
  auto first = Journal::open(disk, kPath);
  ASSERT_EQ(*(*first)->take_generation(kTime, {}), Generation{1});
  disk.before_create = [&] { EXPECT_FALSE((*first)->append({event(1)}, kTime).has_error()); };
  const auto later = Journal::open(disk, kPath);
  ASSERT_FALSE(later);
  EXPECT_EQ(later.error().code, Errc::Fenced);
}

TEST(JournalOwner, ThatWasReplacedWritesNoNewFileOverTheLaterOnes) {
  OnDisk on;
  const auto later = Journal::open(on.disk, kPath);
  ASSERT_EQ(*(*later)->take_generation(kTime, {}), Generation{2});
  on.disk.fail_at(2, EIO);

  EXPECT_EQ(on.journal->append({event(1)}, kTime).error().code, Errc::Fenced);
  EXPECT_EQ(on.journal->append({event(1)}, kTime).error().code, Errc::Fenced);

  EXPECT_EQ(read_journal(on.disk, kPath)->generation(), Generation{2});
  EXPECT_FALSE((*later)->append({event(2)}, kTime).has_error());
  EXPECT_EQ(on.ranks(), (Ranks{0, 2}));
}

TEST(JournalOwner, WhoseFileIsGoneSaysSo) {
  OnDisk on;
  ASSERT_FALSE(on.disk.remove_file(kPath).has_error());

  EXPECT_EQ(on.journal->append({event(1)}, kTime).error(),
            (Error{Errc::Fenced,
                   "records 3 to 3 are not in the journal: '/run/events.jsonl' was removed "
                   "meanwhile by another process",
                   "only the run's owner may write it; `train-run status` shows who that is"}));
  EXPECT_EQ(on.disk.get(kPath), "(no such file)");
}

/// A real tmpfs of 64 KiB, unmounted at the end.
class JournalOnRealDisk : public testing::Test {
 protected:
  void SetUp() override {
    if (::mkdtemp(folder.data()) == nullptr) GTEST_SKIP() << "cannot make a folder in /tmp";
    if (::mount("journal_disk_test", folder.c_str(), "tmpfs", 0, "size=64k") != 0) {
      ::rmdir(folder.c_str());
      folder.clear();
      GTEST_SKIP() << "mounting a tmpfs needs root";
    }
  }
  void TearDown() override {
    if (folder.empty()) return;
    EXPECT_EQ(::umount2(folder.c_str(), MNT_DETACH), 0);
    ::rmdir(folder.c_str());
  }
  /// Fill what is left, up to less than a page.
  void fill() const {
    std::ofstream file(folder + "/filler", std::ios::binary);
    while (file << std::string(4096, 'f') << std::flush) {
    }
  }

  std::string folder = "/tmp/journal-disk-XXXXXX";
  PosixFileSystem fs;
};

TEST_F(JournalOnRealDisk, FullRefusesAGroupAndGoesOnWhenThereIsSpaceAgain) {
  const std::string path = folder + "/events.jsonl";
  auto journal = Journal::open(fs, path);
  ASSERT_FALSE(journal.has_error()) << journal.error().describe();
  ASSERT_FALSE((*journal)->take_generation(kTime, {}).has_error());
  fill();
  const json::object large = {{"event", "large"}, {"text", std::string(6000, 'x')}};

  const auto refused = (*journal)->append({event(1), large}, kTime);

  EXPECT_EQ(refused.error(),
            (Error{Errc::NoSpace,
                   "records 2 to 3 are not in the journal: writing '" + path +
                       "': No space left on device",
                   "free some space on the disk of '" + folder + "'; the journal then continues"}));
  EXPECT_EQ(read_journal(fs, path)->last_seq(), 1U);
  EXPECT_EQ(read_journal(fs, path)->damage, std::nullopt);
  EXPECT_EQ(Journal::open(fs, path).error(),
            (Error{Errc::NoSpace,
                   "the journal cannot be opened for writing: writing '" + folder +
                       "/.events.jsonl.tmp': No space left on device",
                   "free some space on the disk of '" + folder + "'; the journal then continues"}));
  ASSERT_FALSE(fs.remove_file(folder + "/filler").has_error());
  EXPECT_FALSE((*journal)->append({event(2), large}, kTime).has_error());
  const auto replay = read_journal(fs, path);
  EXPECT_EQ(replay->damage, std::nullopt);
  EXPECT_EQ(replay->records.size(), 3U);
  EXPECT_EQ(replay->records[1], (JournalRecord{2, 2, Generation{1}, kTime, event(2)}));
  EXPECT_FALSE(Journal::open(fs, path).has_error());
}

TEST_F(JournalOnRealDisk, ReadOnlyIsReadButNotOpened) {
  const std::string path = folder + "/events.jsonl";
  {
    auto journal = Journal::open(fs, path);
    ASSERT_FALSE((*journal)->take_generation(kTime, {}).has_error());
  }
  ASSERT_EQ(::mount("", folder.c_str(), "", MS_REMOUNT | MS_RDONLY, ""), 0);

  EXPECT_EQ(Journal::open(fs, path).error(),
            (Error{Errc::Permission,
                   "the journal cannot be opened for writing: creating '" + folder +
                       "/.events.jsonl.tmp': Read-only file system",
                   "make '" + folder +
                       "' writable for this user; a failing disk may be mounted read-only (see "
                       "dmesg). Records acknowledged so far are kept"}));
  EXPECT_EQ(read_journal(fs, path)->generation(), Generation{1});
  ASSERT_EQ(::mount("", folder.c_str(), "", MS_REMOUNT, ""), 0);
  EXPECT_EQ(*Journal::open(fs, path).value()->take_generation(kTime, {}), Generation{2});
}

}  // namespace
}  // namespace train
