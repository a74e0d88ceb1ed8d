#include "lib/storage/journal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "lib/storage/digest.h"
#include "lib/storage/run_lock.h"
#include "tests/fakes/store.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;
namespace json = boost::json;

const std::string kPath = "/run/events.jsonl";
const std::string kTime = "2026-11-21T09:38:00.123456Z";

json::object event(int n) { return {{"event", "worker_exited"}, {"rank", n}}; }

/// Two incarnations: generation 1 with groups {1}, {2, 3}, {4}; generation 2 with {5}, {6, 7}.
std::unique_ptr<MemoryFileSystem> disk_with_journal() {
  auto disk = std::make_unique<MemoryFileSystem>();
  disk->put("/run/", "");
  for (const std::vector<int>& groups : {std::vector<int>{2, 1}, std::vector<int>{2}}) {
    auto journal = Journal::open(*disk, kPath);
    EXPECT_FALSE(journal.has_error()) << journal.error().describe();
    EXPECT_FALSE((*journal)->take_generation(kTime, {{"host", "node-a"}}).has_error());
    for (const int size : groups) {
      std::vector<json::object> events;
      for (int i = 0; i < size; ++i) events.push_back(event(i));
      EXPECT_FALSE((*journal)->append(events, kTime).has_error());
    }
  }
  return disk;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    lines.push_back(text.substr(start, end - start + 1));
    start = end + 1;
  }
  return lines;
}

TEST(Journal, HasTheBytesThatTheFormatNames) {
  const auto line = format_record(
      {.seq = 7, .group = 6, .generation = Generation{2}, .time = kTime, .event = event(2)});

  ASSERT_FALSE(line.has_error()) << line.error().describe();
  EXPECT_EQ(
      *line,
      "{\"seq\":7,\"group\":6,\"generation\":2,\"t\":\"2026-11-21T09:38:00.123456Z\",\"event\":"
      "\"worker_exited\",\"rank\":2,"
      "\"xxh3\":\"2e1a6a70c58cd87a\"}\n");
}

TEST(Journal, ComesBackInOrder) {
  const auto disk = disk_with_journal();

  const auto replay = read_journal(*disk, kPath);

  ASSERT_EQ(replay->records.size(), 7U);
  EXPECT_EQ(replay->damage, std::nullopt);
  EXPECT_EQ(replay->generation(), Generation{2});
  EXPECT_EQ(replay->records[0],
            (JournalRecord{
                1, 1, Generation{1}, kTime, {{"event", "generation_taken"}, {"host", "node-a"}}}));
  EXPECT_EQ(replay->records[2], (JournalRecord{3, 2, Generation{1}, kTime, event(1)}));
  EXPECT_EQ(replay->records[4],
            (JournalRecord{
                5, 5, Generation{2}, kTime, {{"event", "generation_taken"}, {"host", "node-a"}}}));
  EXPECT_EQ(replay->records[6], (JournalRecord{7, 6, Generation{2}, kTime, event(1)}));
}

TEST(Journal, CutAtAnyByteGivesTheWholeLinesBeforeAndGoesOn) {
  const auto disk = disk_with_journal();
  const std::string text = disk->get(kPath);
  for (std::size_t bytes = 0; bytes <= text.size(); ++bytes) {
    const std::size_t whole = static_cast<std::size_t>(
        std::count(text.begin(), text.begin() + static_cast<long>(bytes), '\n'));
    const std::size_t last_line = bytes == 0 ? 0
                                  : text.rfind('\n', bytes - 1) == std::string::npos
                                      ? 0
                                      : text.rfind('\n', bytes - 1) + 1;
    auto cut = disk->after_kill();
    cut->cut_file(kPath, bytes);

    auto journal = Journal::open(*cut, kPath);

    ASSERT_FALSE(journal.has_error()) << bytes << ": " << journal.error().describe();
    ASSERT_EQ((*journal)->replayed().records.size(), whole) << bytes;
    ASSERT_EQ((*journal)->replayed().damage.has_value(), bytes != last_line) << bytes;
    ASSERT_EQ(cut->get(kPath), text.substr(0, last_line)) << bytes;
    const Generation before = (*journal)->generation();
    ASSERT_EQ(*(*journal)->take_generation(kTime, {}), before.next()) << bytes;
    ASSERT_EQ(read_journal(*cut->after_power_cut(0), kPath)->records.size(), whole + 1) << bytes;
  }
}

TEST(Journal, NamesDamageBeforeTheTailAndDoesNotTouchIt) {
  const auto disk = disk_with_journal();
  const std::string text = disk->get(kPath);
  const auto lines = lines_of(text);
  const std::size_t last_group = text.size() - lines[6].size() - lines[5].size();
  for (std::size_t bit = 0; bit < last_group * 8; ++bit) {
    auto damaged = disk->after_kill();
    damaged->flip_bit(kPath, bit);
    const std::string before = damaged->get(kPath);
    const std::size_t line = static_cast<std::size_t>(std::count(
                                 text.begin(), text.begin() + static_cast<long>(bit / 8), '\n')) +
                             1;

    const auto refused = Journal::open(*damaged, kPath);

    ASSERT_TRUE(refused.has_error()) << "bit " << bit;
    ASSERT_EQ(refused.error().code, Errc::Corrupt) << "bit " << bit;
    ASSERT_NE(refused.error().message.find("is damaged at line " + std::to_string(line) + " "),
              std::string::npos)
        << refused.error().message;
    ASSERT_EQ(damaged->get(kPath), before);
  }
}

TEST(Journal, SaysWhereAndWhatIsDamaged) {
  auto disk = disk_with_journal();
  const auto lines = lines_of(disk->get(kPath));
  disk->put(kPath, lines[0] + "{\"seq\":2}\n" + lines[2] + lines[3] + lines[4]);

  EXPECT_EQ(
      Journal::open(*disk, kPath).error(),
      (Error{Errc::Corrupt,
             "'/run/events.jsonl' is damaged at line 2 (byte " + std::to_string(lines[0].size()) +
                 "): no xxh3 at the end; 1 records before it are intact, but later ones were "
                 "acknowledged",
             "restore the file from a backup, or start a new run from this one's newest checkpoint "
             "with "
             "resume_from_checkpoint"}));
}

TEST(Journal, TakesALostStartOfTheLastGroupForATornTail) {
  const auto lines = lines_of(disk_with_journal()->get(kPath));
  const std::string whole = lines[0] + lines[1] + lines[2] + lines[3] + lines[4];

  const JournalReplay zeros =
      replay_journal(whole + std::string(lines[5].size() - 1, '\0') + "\n" + lines[6]);
  const JournalReplay missing = replay_journal(whole + lines[6]);

  EXPECT_EQ(zeros.records.size(), 5U);
  EXPECT_EQ(zeros.damage, (JournalDamage{6, whole.size(), "no xxh3 at the end", true}));
  EXPECT_EQ(missing.damage, (JournalDamage{6, whole.size(), "seq is 7, expected 6", true}));
}

// That of a run which takes over the workers of another: nodes have heard of the other's.
TEST(Journal, MayBeginAfterAGenerationOfAnotherRun) {
  MemoryFileSystem disk;
  disk.put("/run/", "");
  auto journal = Journal::open(disk, kPath);
  ASSERT_TRUE(journal);
  const auto taken = (*journal)->take_generation(kTime, {}, Generation{7});
  ASSERT_TRUE(taken);
  EXPECT_EQ(*taken, Generation{8});
  journal = Journal::open(disk, kPath);
  ASSERT_TRUE(journal);
  EXPECT_EQ((*journal)->replayed().damage, std::nullopt);
  EXPECT_EQ(*(*journal)->take_generation(kTime, {}, Generation{3}), Generation{9});
}

TEST(Journal, NeverAcceptsTwoGenerationsInterleaved) {
  const auto line = [](std::uint64_t seq, std::uint64_t generation, const char* name) {
    return *format_record({.seq = seq,
                           .group = seq,
                           .generation = Generation{generation},
                           .time = kTime,
                           .event = {{"event", name}}});
  };
  const std::string start = line(1, 1, "generation_taken") + line(2, 2, "generation_taken");

  const JournalReplay older = replay_journal(start + line(3, 1, "late") + line(4, 2, "next"));
  const JournalReplay newer = replay_journal(start + line(3, 3, "unannounced"));
  const JournalReplay skipped = replay_journal(start + line(3, 4, "generation_taken"));
  const JournalReplay twice = replay_journal(start + line(2, 2, "again"));

  EXPECT_EQ(older.records.size(), 2U);
  EXPECT_EQ(older.damage,
            (JournalDamage{3, start.size(), "generation is 1 after generation 2", false}));
  EXPECT_EQ(newer.damage,
            (JournalDamage{3, start.size(), "generation is 3 after generation 2", false}));
  EXPECT_EQ(skipped.damage,
            (JournalDamage{3, start.size(), "generation is 4 after generation 2", false}));
  EXPECT_EQ(twice.damage, (JournalDamage{3, start.size(), "seq is 2, expected 3", false}));
}

TEST(Journal, TakesOnlyLinesThatItCouldHaveWritten) {
  // These have valid checksums, but format_record did not write them.
  const auto line = [](const std::string& body) {
    return body + ",\"xxh3\":\"" + fmt::format("{:016x}", digest64_of(body)) + "\"}\n";
  };
  const std::string members = "{\"seq\":1,\"group\":1,\"generation\":1,\"t\":\"t\"";
  const std::string generation = ",\"event\":\"generation_taken\"";

  const auto reason = [&](const std::string& text) {
    const JournalReplay replay = replay_journal(text);
    EXPECT_EQ(replay.records.size(), 0U);
    return replay.damage ? replay.damage->what : "";
  };
  EXPECT_EQ(replay_journal(line(members + generation)).records.size(), 1U);
  EXPECT_EQ(reason(line(members + generation + ",\"xxh3\":0")), "two members 'xxh3'");
  EXPECT_EQ(reason(line("{\"seq\":1,\"group\":1,\"generation\":0,\"t\":\"t\",\"event\":\"early\"")),
            "no generation was taken before it");
  EXPECT_EQ(reason(line(members + generation + ",\"text\":\"" + std::string(1 << 20, 'x') + "\"")),
            "a line of 1048681 bytes");
  EXPECT_EQ(replay_journal(line(members + generation + ",\"number\":0e3020")).records[0].event,
            (json::object{{"event", "generation_taken"}, {"number", nullptr}}));
}

TEST(Journal, ThatAnotherVersionWroteIsNoTornTail) {
  const std::string body = R"({"seq":1,"group":1,"epoch":1,"t":"t","event":"epoch_taken")";
  const std::string line =
      body + ",\"xxh3\":\"" + fmt::format("{:016x}", digest64_of(body)) + "\"}\n";

  const JournalReplay replay = replay_journal(line);

  ASSERT_TRUE(replay.damage);
  EXPECT_FALSE(replay.damage->torn_tail);
  EXPECT_EQ(replay.damage->what,
            "'seq', 'group', 'generation' or 't' is missing or wrong: another version of trainrun "
            "wrote it");
}

TEST(Journal, RefusesEventsThatCouldNotBeReadBack) {
  auto disk = disk_with_journal();
  auto journal = Journal::open(*disk, kPath);
  ASSERT_FALSE((*journal)->take_generation(kTime, {}).has_error());

  for (const std::string member : {"seq", "group", "generation", "t", "xxh3"})
    EXPECT_EQ((*journal)->append({{{member, 1}}}, kTime).error().message,
              "journal: an event may not have a member '" + member + "' of its own");
  EXPECT_EQ((*journal)->append({{{"event", "generation_taken"}}}, kTime).error().message,
            "journal: 'generation_taken' is the journal's own event");
  EXPECT_TRUE((*journal)->append({{{"text", "\xff"}}}, kTime).has_error());
  EXPECT_EQ((*journal)->append({{{"text", std::string(2 << 20, 'x')}}}, kTime).error().code,
            Errc::ResourceExhausted);
  EXPECT_EQ(read_journal(*disk, kPath)->records.size(), 8U);
}

TEST(Journal, SaysWhatToDoAboutADiskThatFailsOrIsFull) {
  const std::vector<std::pair<int, std::string>> advice{
      {EIO, "is the disk of '/run' failing (see dmesg)? Records acknowledged so far are kept"},
      {ENOSPC, "free some space on the disk of '/run'; the journal then continues"},
      {EROFS,
       "make '/run' writable for this user; a failing disk may be mounted read-only (see dmesg). "
       "Records acknowledged so far are kept"}};
  for (const auto& [number, hint] : advice) {
    auto disk = disk_with_journal();
    auto journal = Journal::open(*disk, kPath);
    ASSERT_TRUE((*journal)->take_generation(kTime, {}));
    disk->fail_at(1, number);
    EXPECT_EQ((*journal)->append({event(1)}, kTime).error().hint, hint);
  }
}

TEST(RunLock, NamesTheHolderToASecondOne) {
  MemoryFileSystem disk;
  disk.put("/run/", "");
  const LockHolder first{"node-a", 4242, kTime}, second{"node-b", 7, kTime};
  {
    auto held = RunLock::acquire(disk, "/run/.lock", first);
    ASSERT_FALSE(held.has_error());

    EXPECT_EQ(
        RunLock::acquire(disk, "/run/.lock", second).error(),
        (Error{
            Errc::AlreadyExists,
            "the run in '/run' is held by process 4242 on node-a since 2026-11-21T09:38:00.123456Z",
            "stop it with train-run stop, follow it with train-run attach, or take it over with "
            "--force"}));
    EXPECT_FALSE(held->check().has_error());
  }
  EXPECT_FALSE(RunLock::acquire(disk, "/run/.lock", second).has_error());
  EXPECT_EQ(read_lock_holder(disk, "/run/.lock"), second);
}

TEST(RunLock, FencesTheOneThatWasReplaced) {
  MemoryFileSystem disk;
  disk.put("/run/", "");
  auto earlier = RunLock::acquire(disk, "/run/.lock", {"node-a", 4242, kTime});

  auto later = RunLock::take_over(disk, "/run/.lock", {"node-b", 7, kTime});

  ASSERT_FALSE(later.has_error()) << later.error().describe();
  EXPECT_FALSE(later->check().has_error());
  EXPECT_EQ(earlier->check().error(), (Error{Errc::Fenced,
                                             "the run in '/run' was taken over by process 7 on "
                                             "node-b since 2026-11-21T09:38:00.123456Z"}));
}

}  // namespace
}  // namespace train
