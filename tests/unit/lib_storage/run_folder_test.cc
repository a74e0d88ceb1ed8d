#include "lib/storage/run_folder.h"

#include <gtest/gtest.h>

#include "tests/fakes/store.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;

TEST(RunFolder, SaysWhereThingsAre) {
  const RunFolder run("/results/vit");
  EXPECT_EQ(run.lock(), "/results/vit/.lock");
  EXPECT_EQ(run.journal(), "/results/vit/events.jsonl");
  EXPECT_EQ(run.checkpoints(), "/results/vit/checkpoints");
  EXPECT_EQ(run.attempt(Attempt{0}), "/results/vit/attempts/000");
  EXPECT_EQ(run.rank(Attempt{1}, Rank{3}), "/results/vit/attempts/001/ranks/0003");
  EXPECT_EQ(run.stdout_log(Attempt{1}, Rank{3}), "/results/vit/attempts/001/ranks/0003/stdout.log");
  EXPECT_EQ(run.stderr_log(Attempt{1}, Rank{3}), "/results/vit/attempts/001/ranks/0003/stderr.log");
  EXPECT_EQ(run.error_json(Attempt{1}, Rank{3}), "/results/vit/attempts/001/ranks/0003/error.json");
  EXPECT_EQ(run.cause_json(Attempt{1}), "/results/vit/attempts/001/cause.json");
}

TEST(RunFolder, IsNewOrRefused) {
  MemoryFileSystem disk;

  EXPECT_EQ(create_run_folder(disk, "/results/mine", "vit")->path(), "/results/mine/vit");
  EXPECT_EQ(create_run_folder(disk, "/results/mine", "vit").error().code, Errc::AlreadyExists);
  EXPECT_EQ(create_unique_run_folder(disk, "/results/mine", "vit")->path(), "/results/mine/vit-2");
  EXPECT_EQ(create_unique_run_folder(disk, "/results/mine", "vit")->path(), "/results/mine/vit-3");
  EXPECT_EQ(disk.after_power_cut(0)->tree(),
            (std::vector<std::string>{"/results/", "/results/mine/", "/results/mine/vit/",
                                      "/results/mine/vit-2/", "/results/mine/vit-3/"}));
}

TEST(RunFolder, RefusesNamesThatLeaveTheStorage) {
  for (const std::string& name : {std::string("../x"), std::string("a/b"), std::string(".hidden"),
                                  std::string(""), std::string("-x"), std::string("a b"),
                                  std::string("a\nb"), std::string(129, 'a'), std::string("ü")})
    EXPECT_TRUE(check_run_name(name).has_error()) << name;
  for (const std::string& name :
       {std::string("vit-cifar10_2026.11"), std::string("0"), std::string(128, 'a')})
    EXPECT_FALSE(check_run_name(name).has_error()) << name;
  EXPECT_EQ(check_run_name("a\x1b[2J").error(),
            (Error{Errc::InvalidArgument, "'a\\x1b[2J' cannot be the name of a run",
                   "use letters, digits, '.', '_' and '-', a letter or digit first, at most 128 "
                   "characters"}));
}

TEST(SmallFile, IsTheOldOrTheNewOneAtAnyCut) {
  for (std::uint64_t n = 1;; ++n) {
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, MemoryFileSystem::kWhole}) {
      MemoryFileSystem disk;
      disk.put("/run/exit.json", "old");
      disk.put("/run/.exit.json.tmp", "left by a killed writer");
      disk.cut_power_at(n, bytes);

      const bool done = !write_small_file(disk, "/run/exit.json", "{\"new\":1}").has_error();

      for (std::uint64_t seed = 0; seed < 50; ++seed) {
        const std::string found =
            (seed == 49 ? disk.after_kill() : disk.after_power_cut(seed))->get("/run/exit.json");
        ASSERT_TRUE(found == "{\"new\":1}" || (!done && found == "old"))
            << disk.trace().back() << ": " << found;
      }
      if (!disk.power_lost()) return;
    }
  }
}

}  // namespace
}  // namespace train
