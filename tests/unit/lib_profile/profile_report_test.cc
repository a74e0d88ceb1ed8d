// What a profile looks like to people and to other programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/profile/report/hot_functions.h"
#include "lib/profile/report/profile_formats.h"

namespace train {
namespace {

using testing::HasSubstr;

Profile example() {
  return {.facts = {.kind = ProfileKind::Cpu,
                    .engine = "perf_event",
                    .executable = "/bin/worker",
                    .pid = 42,
                    .lasted = seconds{5},
                    .period = milliseconds{10},
                    .cpu_time = milliseconds{100},
                    .notes = {"a note"}},
          .frames = {{"thread worker", "", ""},
                     {"int main(int, char**)", "worker", "worker.cc"},
                     {"void train::step<float>(int)", "worker", "worker.cc"},
                     {"", "libblas.so", ""}},
          .stacks = {{{0, 1, 2}, 2}, {{0, 1, 2, 3}, 7}, {{0, 1, 2, 2}, 1}}};
}
const ProfiledRank kRank{.rank = 3, .node = "n2"};

TEST(HotFunctions, AreThoseThatRanThemselves) {
  EXPECT_EQ(hot_functions(example(), 10),
            (std::vector<HotFunction>{{"[libblas.so]", "libblas.so", 7, 7},
                                      {"train::step", "worker", 3, 10}}));
  EXPECT_EQ(hot_functions(example(), 1).size(), 1u);
  EXPECT_TRUE(hot_functions({}, 10).empty());
}

TEST(HotFunctions, AreShownWithWhatTheProfileIs) {
  EXPECT_EQ(describe_profile(example(), kRank),
            "cpu profile of rank 3 on n2, pid 42, /bin/worker\n"
            "0.10 of 5.0 s on a CPU; 10 samples, one each 10 ms, by perf_event; to see where it "
            "waits: --kind wall\n"
            "\n"
            "   self  total  function\n"
            " 70.0 %   70 %  [libblas.so]\n"
            " 30.0 %  100 %  train::step  [worker]\n"
            "note: a note\n");
}

TEST(HotFunctions, AnIdleWorkerIsAResult) {
  Profile profile{
      .facts = {.engine = "perf_event", .lasted = seconds{5}, .cpu_time = milliseconds{20}}};
  EXPECT_THAT(describe_profile(profile, {}),
              HasSubstr("0.02 of 5.0 s on a CPU; 0 samples, by perf_event; to see where it waits: "
                        "--kind wall\n"));
  profile.facts.kind = ProfileKind::Wall;
  EXPECT_THAT(describe_profile(profile, {}), testing::Not(HasSubstr("--kind")));
}

TEST(HotFunctions, NamesDoNotSteerTheTerminal) {
  Profile profile = example();
  profile.frames[3].module = "lib\033[2Jx";
  EXPECT_THAT(describe_profile(profile, kRank), testing::Not(HasSubstr("\033")));
  profile.facts.executable = "/bin/a\nnote: all is well";
  profile.frames[3].module = "b\nnote: all is well";
  profile.facts.notes = {"c\nnote: all is well"};
  EXPECT_THAT(describe_profile(profile, kRank), testing::Not(HasSubstr("\nnote: all is well")));
}

TEST(FoldedStacks, AreALineEach) {
  EXPECT_EQ(folded_stacks(example()),
            "thread worker;int main(int, char**);void train::step<float>(int) 2\n"
            "thread worker;int main(int, char**);void train::step<float>(int);[libblas.so] 7\n"
            "thread worker;int main(int, char**);void train::step<float>(int);"
            "void train::step<float>(int) 1\n");
}

TEST(Speedscope, HasAProfileOfSampledStacks) {
  EXPECT_EQ(
      speedscope_json(example(), kRank),
      R"json({"$schema":"https://www.speedscope.app/file-format-schema.json",)json"
      R"json("name":"cpu profile of rank 3 on n2","exporter":"trainrun","activeProfileIndex":0,)json"
      R"json("shared":{"frames":[{"name":"thread worker"},)json"
      R"json({"name":"int main(int, char**)","file":"worker.cc"},)json"
      R"json({"name":"void train::step<float>(int)","file":"worker.cc"},)json"
      R"json({"name":"[libblas.so]"}]},)json"
      R"json("profiles":[{"type":"sampled","name":"cpu profile of rank 3 on n2",)json"
      R"json("unit":"microseconds","startValue":0,"endValue":1e+05,)json"
      R"json("samples":[[0,1,2],[0,1,2,3],[0,1,2,2]],"weights":[20000.0,70000.0,10000.0]}]})json");
}

Profile memory_example() {
  return {.facts = {.kind = ProfileKind::Memory,
                    .engine = "the SDK",
                    .executable = "/bin/worker",
                    .pid = 42,
                    .lasted = seconds{5},
                    .sample_bytes = 512u << 10,
                    .memory_samples = 1234},
          .frames = {{std::string(kLiveMemory), "", ""},
                     {std::string(kFreedMemory), "", ""},
                     {"int main(int, char**)", "worker", "worker.cc"},
                     {"void load(int)", "worker", "worker.cc"},
                     {"std::vector<int>::push_back(int const&)", "worker", "stl_vector.h"}},
          .stacks = {{{0, 2, 3}, 1u << 20},
                     {{0, 2, 3, 4}, 63u << 20},
                     {{1, 2, 3}, 1u << 20},
                     {{1, 2}, std::uint64_t{1} << 31}}};
}

TEST(MemoryProfile, BelongsToTheFunctionsThatWantedTheMemory) {
  EXPECT_EQ(hot_functions(memory_example(), 10),
            (std::vector<HotFunction>{{"load", "worker", 64u << 20, 65u << 20},
                                      {"main", "worker", 0, std::uint64_t{1} << 31}}));
}

TEST(MemoryProfile, IsShownInBytes) {
  EXPECT_EQ(describe_profile(memory_example(), kRank),
            "memory profile of rank 3 on n2, pid 42, /bin/worker\n"
            "2.1 GiB allocated in 5.0 s, 64.0 MiB of it still allocated at the end; 1234 samples, "
            "one each 512.0 KiB on average, by the SDK\n"
            "\n"
            "      live  allocated  function\n"
            "  64.0 MiB   65.0 MiB  load  [worker]\n"
            "         -    2.0 GiB  main  [worker]\n");
  Profile nothing = memory_example();
  nothing.stacks.clear();
  nothing.facts.memory_samples = 0;
  EXPECT_THAT(
      describe_profile(nothing, kRank),
      HasSubstr("0 B allocated in 5.0 s, none of it still allocated at the end; 0 samples"));
}

TEST(MemoryProfile, OtherProgramsGetBytes) {
  EXPECT_THAT(folded_stacks(memory_example()),
              HasSubstr("[still allocated];int main(int, char**);void load(int) 1048576\n"));
  const std::string json = speedscope_json(memory_example(), kRank);
  EXPECT_THAT(json, HasSubstr(R"("unit":"bytes","startValue":0,"endValue":2215641088.0)"));
  EXPECT_THAT(json, HasSubstr(R"("weights":[1048576.0,66060288.0,1048576.0,2147483648.0])"));
}

}  // namespace
}  // namespace train
