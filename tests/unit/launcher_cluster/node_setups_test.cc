// What the launcher keeps of the setups of nodes.
#include "launcher/cluster/run/node_setups.h"

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

TEST(RunFolderNames, ANodesLogLiesInTheAttemptsFolderWhateverItsName) {
  const RunFolder folder("/runs/vit");
  const auto log = [&](std::string_view node) { return folder.node_setup_log(Attempt{3}, node); };
  EXPECT_EQ(log("gpu-1:7070"), "/runs/vit/attempts/003/nodes/gpu-1_7070/setup.log");
  EXPECT_EQ(log("../../x"), "/runs/vit/attempts/003/nodes/_.._.._x/setup.log");
  EXPECT_EQ(log(""), "/runs/vit/attempts/003/nodes/_/setup.log");
  EXPECT_EQ(log(std::string("a\0/\n", 4)), "/runs/vit/attempts/003/nodes/a___/setup.log");
  EXPECT_LT(log(std::string(100'000, 'n')).size(), 200u);
}

TEST(AddToLog, AppendsAndFollowsNoLink) {
  TempFolder folder;
  const std::string path = folder.path() + "/a/b/setup.log";
  ASSERT_TRUE(add_to_log(path, "one\n"));
  ASSERT_TRUE(add_to_log(path, "two\n"));
  EXPECT_EQ(text_of(path), "one\ntwo\n");
  std::filesystem::create_symlink(path, folder.path() + "/link");
  EXPECT_FALSE(add_to_log(folder.path() + "/link", "three\n"));
}

}  // namespace
}  // namespace train
