#include "launcher/report/line_prefix.h"

#include <gtest/gtest.h>

namespace train {
namespace {

const LineOrigin kFirst{"gpu-1", 0, 0}, kSecond{"gpu-1", 1, 1}, kThird{"gpu-2", 2, 0};

std::string of(const LinePrefix& prefix, std::vector<const LineOrigin*> origins) {
  return prefix.of(origins, 4);
}

TEST(LinePrefix, NamesTheNodeOfOneRankOrTheRanks) {
  EXPECT_EQ(of({}, {&kSecond}), "[gpu-1 1] ");
  EXPECT_EQ(of({}, {&kFirst, &kSecond}), "[0-1] ");
  EXPECT_EQ(of({}, {&kFirst, &kThird}), "[0,2] ");
}

TEST(LinePrefix, NamesTheRoleWhereThereAreSeveral) {
  const LineOrigin reader{.node = "a", .rank = 4, .local_rank = 0, .role = "reader"};
  const LineOrigin trainer{.node = "a", .rank = 0, .local_rank = 0, .role = "trainer"};
  const std::array<const LineOrigin*, 1> one{&reader};
  const std::array<const LineOrigin*, 2> both{&trainer, &reader};
  EXPECT_EQ(LinePrefix().of(one, 0), "[a 4 reader] ");
  EXPECT_EQ(LinePrefix().of(both, 0), "[0,4] ");
  EXPECT_EQ(LinePrefix::parse("${role_name}: ", "run")->of(one, 0), "reader: ");
  EXPECT_EQ(LinePrefix::parse("${role_name}: ", "run")->of(both, 0), "reader,trainer: ");
}

TEST(LinePrefix, IsWhatTheTemplateSays) {
  const auto prefix =
      LinePrefix::parse("[${run}/${attempt} ${node} r${rank} l$local_rank]$$: ", "vit").value();

  EXPECT_EQ(of(prefix, {&kSecond}), "[vit/4 gpu-1 r1 l1]$: ");
  EXPECT_EQ(of(prefix, {&kFirst, &kThird}), "[vit/4 2 nodes r0,2 l0]$: ");
  EXPECT_EQ(of(LinePrefix::parse("", "vit").value(), {&kFirst}), "");
}

TEST(LinePrefix, TakesATemplateOfTorchrun) {
  const auto prefix = LinePrefix::parse("[${hostname}:${role_name}${local_rank}]:", "vit").value();
  EXPECT_EQ(of(prefix, {&kSecond}), "[gpu-1:default1]:");
}

TEST(LinePrefix, SaysWhatIsWrongWithATemplate) {
  const auto mistake = [](std::string_view text) {
    return LinePrefix::parse(text, "vit").error().message;
  };
  EXPECT_EQ(mistake("${role}"), "--log-line-prefix: '${role}' is not known");
  for (const char* text : {"$", "a $ b", "${", "${}", "${rank", "${rank x}", "$-"})
    EXPECT_EQ(mistake(text), "--log-line-prefix: no name follows a '$'") << text;
  EXPECT_EQ(mistake(std::string(300, 'x')),
            "--log-line-prefix: the template has 300 characters, more than 256");
}

TEST(LinePrefix, SteersNoTerminal) {
  const LineOrigin hostile{"a\x1b[2J", 0, 0};
  EXPECT_EQ(of(LinePrefix::parse("\x1b]0;x\a${node}: ", "vit").value(), {&hostile}), "a: ");
}

}  // namespace
}  // namespace train
