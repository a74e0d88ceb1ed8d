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

}  // namespace
}  // namespace train
