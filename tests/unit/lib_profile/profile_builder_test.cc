// Samples become a profile of bounded size.
#include "lib/profile/profile_builder.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace train {
namespace {

ProfileFrame function(const std::string& name, const std::string& module = "worker") {
  return {.function = name, .module = module, .file = ""};
}
const ProfileFrame kMain = {.function = "thread worker"};

TEST(ProfileBuilder, CountsEqualStacksOnce) {
  ProfileBuilder builder;
  builder.add({kMain, function("main()"), function("step()")}, 2);
  builder.add({kMain, function("main()"), function("load()")}, 1);
  builder.add({kMain, function("main()"), function("step()")}, 3);
  builder.add({kMain, function("main()")}, 0);

  const Profile profile = std::move(builder).take();

  EXPECT_EQ(profile.frames, (std::vector<ProfileFrame>{function("load()"), function("main()"),
                                                       function("step()"), kMain}));
  EXPECT_EQ(profile.stacks, (std::vector<ProfileStack>{{{3, 1, 0}, 1}, {{3, 1, 2}, 5}}));
  EXPECT_EQ(samples_of(profile), 6u);
}

TEST(ProfileBuilder, TakesStacksOfAProcessOutermostFirst) {
  ProcessStacks process;
  process.threads.push_back({.facts = {.name = "worker"},
                             .frames = {{.function = "step", .module = "m", .guessed = true},
                                        {.function = "main", .module = "m"}}});
  process.threads.push_back({.facts = {.name = "reader", .state = 'D', .wchan = "nfs_wait"}});
  process.notes = {"'libx.so' was deleted"};
  ProfileBuilder builder;
  builder.add(process, {4, 2}, "loader");

  const Profile profile = std::move(builder).take();

  std::string text;
  for (const ProfileStack& stack : profile.stacks) {
    for (const std::uint32_t frame : stack.frames) text += full_name(profile.frames[frame]) + ";";
    text += fmt::format(" {}\n", stack.samples);
  }
  EXPECT_EQ(text,
            "process loader;thread reader;[in the kernel: nfs_wait]; 2\n"
            "process loader;thread worker;main;step; 4\n");
  EXPECT_EQ(profile.facts.guessed, 4u);
  EXPECT_EQ(profile.facts.notes, std::vector<std::string>{"'libx.so' was deleted"});
}

TEST(ProfileBuilder, NamesCannotEndAFrameOrALine) {
  ProfileBuilder builder;
  builder.add({{.function = "a;b\nc\xff"}}, 1);
  const Profile profile = std::move(builder).take();
  EXPECT_EQ(profile.frames.at(0).function, "a:b?c\xEF\xBF\xBD");
}

TEST(ProfileBuilder, WhatDoesNotFitIsOneStackOfItsThread) {
  ProfileBuilder builder(4096);
  for (int i = 0; i < 1000; ++i) builder.add({kMain, function(fmt::format("f{}", i))}, 1);

  const Profile profile = std::move(builder).take();

  EXPECT_EQ(samples_of(profile), 1000u);
  EXPECT_LT(profile.stacks.size(), 150u);
  const auto& stacks = profile.stacks;
  const auto other =
      std::max_element(stacks.begin(), stacks.end(),
                       [](const auto& a, const auto& b) { return a.samples < b.samples; });
  EXPECT_GT(other->samples, 850u);
  EXPECT_EQ(profile.frames[other->frames.back()].function, "[other stacks]");
  EXPECT_EQ(profile.facts.notes,
            std::vector<std::string>{"there were more stacks than fit: the others are one"});
}

TEST(ProfileBuilder, MergesProfiles) {
  ProfileBuilder first, second;
  first.add({kMain, function("step()")}, 1);
  first.facts().lost = 2;
  const Profile part = std::move(first).take();
  second.add(part);
  second.add(part);
  const Profile both = std::move(second).take();
  EXPECT_EQ(both.stacks, (std::vector<ProfileStack>{{{1, 0}, 2}}));
  EXPECT_EQ(both.facts.lost, 4u);
}

TEST(ProfileBuilder, CutsDeepStacks) {
  ProfileBuilder builder;
  builder.add(std::vector<ProfileFrame>(10000, function("recurse()")), 1);
  EXPECT_EQ(std::move(builder).take().stacks.at(0).frames.size(), kProfileDepthMax);
}

TEST(ProfileBuilder, TakesStacksOfMemoryWithoutWhatOnlyPassesTheRequestOn) {
  const auto stack = [](std::string_view what, std::vector<StackFrame> frames) {
    return ThreadStack{.facts = {.name = std::string(what)}, .frames = std::move(frames)};
  };
  const StackFrame main{.function = "main", .module = "m"};
  ProcessStacks process;
  process.threads = {
      stack(kLiveMemory, {{.function = "malloc", .module = "libc.so.6"},
                          {.function = "operator new(unsigned long)", .module = "libstdc++.so.6"},
                          {.function = "Model::Model(int)", .module = "m"},
                          main}),
      stack(kFreedMemory, {{.function = "__libc_calloc", .module = "libc.so.6"}, main}),
      stack(kFreedMemory, {{.function = "operator new[](unsigned long)", .module = "m"}}),
      stack(kLiveMemory, {})};
  ProfileBuilder builder;
  builder.add_memory(process, {std::uint64_t{5} << 40, 3, 2, 1});

  const Profile profile = std::move(builder).take();

  std::string text;
  for (const ProfileStack& one : profile.stacks) {
    for (const std::uint32_t frame : one.frames) text += full_name(profile.frames[frame]) + ";";
    text += fmt::format(" {}\n", one.samples);
  }
  EXPECT_EQ(text,
            "[freed];main; 3\n"
            "[freed];operator new[](unsigned long); 2\n"
            "[still allocated];[unknown]; 1\n"
            "[still allocated];main;Model::Model(int); 5497558138880\n");
}

}  // namespace
}  // namespace train
