// Where a run in an object store is, and where its local files are.
#include <fstream>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "lib/base/host.h"
#include "lib/base/time.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

TEST(RemoteNames, ARunLiesBelowItsStorage) {
  EXPECT_EQ(run_location("/runs", "vit"), "/runs/vit");
  EXPECT_EQ(run_location("s3://bucket/runs", "vit"), "s3://bucket/runs/vit");
  EXPECT_EQ(run_location("s3://bucket/runs//", "vit"), "s3://bucket/runs/vit");
}

TEST(RemoteNames, WhatIsHereOfARunInAStoreIsInAFolderOfItsOwn) {
  ::setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(run_path("/runs", "vit"), "/runs/vit");
  EXPECT_EQ(run_path("s3://bucket/runs", "vit"), "/state/trainrun/remote/s3/bucket/runs/vit");
  for (const char* none : {"", static_cast<const char*>(nullptr)}) {
    none != nullptr ? ::setenv("XDG_STATE_HOME", none, 1) : ::unsetenv("XDG_STATE_HOME");
    EXPECT_EQ(run_path("gs://bucket", "vit"),
              home_folder() + "/.local/state/trainrun/remote/gs/bucket/vit");
  }
}

class RemoteNotes : public testing::Test {
 protected:
  void note(const std::string& name, const std::string& text) const {
    std::ofstream(temp_.path() + "/" + name) << text;
  }
  /// Return the owner.json of a launcher that last gave a sign of life so long ago.
  std::string owner(Duration ago, const std::string& host, const std::string& folder) const {
    const auto at = std::chrono::system_clock::now() -
                    std::chrono::duration_cast<std::chrono::system_clock::duration>(ago);
    return fmt::format(
        R"({{"host":"{}","pid":77,"started":"2026-11-21","folder":"{}","beat":1,"at":"{}"}})", host,
        folder, format_utc(at));
  }

  TempFolder temp_;
  const RunFolder folder_{temp_.path()};
};

TEST_F(RemoteNotes, TellOfWhichStoreAFolderIs) {
  EXPECT_EQ(location_of_run(folder_), temp_.path());
  note(".url", "s3://bucket/runs/vit");
  EXPECT_EQ(location_of_run(folder_), "s3://bucket/runs/vit");
}

TEST_F(RemoteNotes, TellWhereElseARunGoesOn) {
  EXPECT_EQ(running_elsewhere(folder_), "");
  note(".owner", owner(seconds(1), "node-b", "/elsewhere"));
  EXPECT_EQ(running_elsewhere(folder_), "train-run pid 77 on node-b, since 2026-11-21");
  note(".owner", owner(seconds(1), host_name(), "/elsewhere"));
  EXPECT_NE(running_elsewhere(folder_), "");
}

TEST_F(RemoteNotes, OfALauncherHereOrOneThatIsSilentTellNothing) {
  for (const std::string& text :
       {owner(seconds(1), host_name(), temp_.path()), owner(seconds(300), "node-b", "/elsewhere"),
        std::string("no json"), std::string("[]"), std::string()}) {
    note(".owner", text);
    EXPECT_EQ(running_elsewhere(folder_), "") << text;
  }
}

}  // namespace
}  // namespace train
