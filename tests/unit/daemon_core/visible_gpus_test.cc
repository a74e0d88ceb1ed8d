#include <gtest/gtest.h>

#include "daemon/devices/node_inventory.h"

namespace train {
namespace {

using Gpus = std::vector<std::string>;

TEST(VisibleGpus, AreAllThatAreInstalledIfNothingIsSaid) {
  EXPECT_EQ(visible_gpus(nullptr, 3), (Gpus{"0", "1", "2"}));
  EXPECT_EQ(visible_gpus(nullptr, 0), Gpus{});
}

TEST(VisibleGpus, AreTheListedOnesInTheirOrder) {
  EXPECT_EQ(visible_gpus("3,1", 4), (Gpus{"3", "1"}));
  EXPECT_EQ(visible_gpus(" 2, 0 ", 4), (Gpus{"2", "0"}));
  EXPECT_EQ(visible_gpus("GPU-8932f937,MIG-4c1b", 1), (Gpus{"GPU-8932f937", "MIG-4c1b"}));
}

TEST(VisibleGpus, AreNoneIfTheListNamesNone) {
  for (const char* listed : {"", "-1", "NoDevFiles", "none", "void", ","})
    EXPECT_EQ(visible_gpus(listed, 4), Gpus{}) << listed;
  EXPECT_EQ(visible_gpus("0,GPU-8932f937", 0), Gpus{});
}

TEST(VisibleGpus, EndWhereTheListIsWrongAsCudasDo) {
  for (const char* listed : {"2,7,1", "2,1x,1", "2,-1,1", "2,,1", "2,99999999999999999999,1"})
    EXPECT_EQ(visible_gpus(listed, 4), Gpus{"2"}) << listed;
}

TEST(VisibleGpus, AreEachListedOnce) { EXPECT_EQ(visible_gpus("1,1,0", 4), (Gpus{"1", "0"})); }

}  // namespace
}  // namespace train
