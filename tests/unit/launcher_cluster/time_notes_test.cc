// What a launcher finds of the time that an earlier one noted of an attempt.
#include "launcher/cluster/run/time_notes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "launcher/report/goodput_text.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

TEST(TimeNote, CountsOnlyForTheSameNumberOfWorkers) {
  const TempFolder temp;
  const RunFolder folder(temp.path());
  LivingAttempt living;
  living.id = Attempt{3};
  living.placement.world_size = 4;
  EXPECT_FALSE(read_time_note(folder, living)) << "there is none";

  const std::string path = folder.goodput_json(living.id);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << goodput_json(3, 4, {}, {}, {});
  const auto noted = read_time_note(folder, living);
  ASSERT_TRUE(noted);
  EXPECT_EQ(noted->world_size, 4);

  living.placement.world_size = 5;
  EXPECT_FALSE(read_time_note(folder, living)) << "it was re-formed";
  living.placement.world_size = 4;
  for (const char* text : {"", "{", "[]", "{}", R"({"world_size": "4"})"}) {
    std::ofstream(path) << text;
    EXPECT_FALSE(read_time_note(folder, living)) << text;
  }
}

}  // namespace
}  // namespace train
