#include "daemon/devices/visible_gpus.h"

#include <gtest/gtest.h>

namespace train {
namespace {

using Gpus = std::vector<std::string>;
const Gpus kFour{"GPU-0a11", "GPU-0a22", "GPU-bb33", "GPU-cc44"};

TEST(VisibleGpus, AreAllThatAreInstalledIfNothingIsSaid) {
  EXPECT_EQ(visible_gpus(nullptr, kFour), (Gpus{"0", "1", "2", "3"}));
  EXPECT_EQ(visible_gpus(nullptr, {}), Gpus{});
  EXPECT_EQ(visible_gpus(nullptr, {""}), Gpus{"0"});  // it did not tell its UUID
}

TEST(VisibleGpus, AreTheListedOnesInTheirOrder) {
  EXPECT_EQ(visible_gpus("3,1", kFour), (Gpus{"3", "1"}));
  EXPECT_EQ(visible_gpus(" 2, 0 ", kFour), (Gpus{"2", "0"}));
  EXPECT_EQ(visible_gpus("GPU-cc44,GPU-b", kFour), (Gpus{"3", "2"}));
}

TEST(VisibleGpus, AreNoneIfTheListNamesNone) {
  for (const char* listed : {"", "-1", "NoDevFiles", "none", "void", ",", "GPU-dd55", "GPU-0a"})
    EXPECT_EQ(visible_gpus(listed, kFour), Gpus{}) << listed;
  for (const char* listed : {"0", "GPU-0a11", "MIG-4c1b"})
    EXPECT_EQ(visible_gpus(listed, {}), Gpus{}) << listed;
}

TEST(VisibleGpus, EndWhereTheListIsWrongAsCudasDo) {
  for (const char* listed : {"2,7,1", "2,1x,1", "2,-1,1", "2,,1", "2,99999999999999999999,1",
                             "2,GPU-0a,1", "2,MIG-4c,1"})
    EXPECT_EQ(visible_gpus(listed, kFour), Gpus{"2"}) << listed;
}

TEST(VisibleGpus, AreEachListedOnceUnderWhateverName) {
  EXPECT_EQ(visible_gpus("1,1,GPU-0a22,0", kFour), (Gpus{"1", "0"}));
}

TEST(VisibleGpus, AreOneMigInstanceAtMost) {
  EXPECT_EQ(visible_gpus("MIG-4c1b,MIG-5d2c", kFour), Gpus{"MIG-4c1b"});
}

}  // namespace
}  // namespace train
