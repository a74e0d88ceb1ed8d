// Tests what `train-run checkpoint list` prints, letter by letter.
#include "launcher/report/checkpoint_table.h"

#include <gtest/gtest.h>

#include "lib/base/size_text.h"

namespace train {
namespace {

CheckpointRow row(std::uint64_t number, std::uint64_t bytes, std::optional<double> score) {
  const std::string name = "checkpoint_00000" + std::to_string(number);
  CheckpointRow row{.number = number, .name = name, .path = "/runs/vit/checkpoints/" + name};
  row.created = "2026-11-21T09:38:00.123456Z";
  row.bytes = bytes;
  row.files = 3;
  row.world_size = 16;
  row.epoch = static_cast<std::int64_t>(number) - 1;
  row.score = score;
  row.metrics = {{"epoch", *row.epoch}};
  return row;
}

CheckpointRow broken(std::uint64_t number) {
  const std::string name = "checkpoint_00000" + std::to_string(number);
  return {.number = number,
          .name = name,
          .path = "/runs/vit/checkpoints/" + name,
          .error = "'model.pt': 3 bytes, \033[31mexpected 9"};
}

TEST(CheckpointTable, HasALineForEach) {
  CheckpointTable table{
      .score_attribute = "val_acc",
      .rows = {row(1, 999, 0.5), row(2, 1'234'567, {}), broken(3), row(4, 5'000'000'000, 0.97125)}};
  table.rows[0].best = true;
  table.rows[3].latest = true;

  EXPECT_EQ(checkpoints_text(table),
            "name               created (UTC)           size  files  ranks  epoch  val_acc\n"
            "checkpoint_000001  2026-11-21 09:38:00    999 B      3     16      0      0.5  best\n"
            "checkpoint_000002  2026-11-21 09:38:00  1.2 MiB      3     16      1        -\n"
            "checkpoint_000003  cannot be used: 'model.pt': 3 bytes, expected 9\n"
            "checkpoint_000004  2026-11-21 09:38:00  4.7 GiB      3     16      3  0.97125  "
            "latest\n");
}

TEST(CheckpointTable, LeavesOutTheColumnsThatNobodyFills) {
  CheckpointTable table{.rows = {row(1, 5, {})}};
  table.rows[0].epoch.reset();
  table.rows[0].latest = table.rows[0].best = true;

  EXPECT_EQ(checkpoints_text(table),
            "name               created (UTC)        size  files  ranks\n"
            "checkpoint_000001  2026-11-21 09:38:00   5 B      3     16  latest, best\n");
}

TEST(CheckpointTable, NamesTheNodesWhereFilesAre) {
  CheckpointTable table{.rows = {row(1, 5, {}), row(2, 5, {})}};
  table.rows[0].epoch.reset();
  table.rows[1].epoch.reset();
  table.rows[0].nodes = {"n0", "n1"};
  table.rows[1].nodes = {"n2"};
  table.rows[1].latest = true;

  EXPECT_EQ(checkpoints_text(table),
            "name               created (UTC)        size  files  ranks\n"
            "checkpoint_000001  2026-11-21 09:38:00   5 B      3     16  on n0 n1\n"
            "checkpoint_000002  2026-11-21 09:38:00   5 B      3     16  latest, on n2\n");
}

TEST(CheckpointTable, IsOneArrayForPrograms) {
  CheckpointTable table{.score_attribute = "val_acc", .rows = {row(1, 999, 0.5), broken(2)}};
  table.rows[0].latest = true;

  EXPECT_EQ(checkpoints_json(table), R"([
{"name":"checkpoint_000001","number":1,"path":"/runs/vit/checkpoints/checkpoint_000001","error":null,"created":"2026-11-21T09:38:00.123456Z","bytes":999,"files":3,"world_size":16,"epoch":0,"score":0.5,"metrics":{"epoch":0},"validation":null,"validation_error":null,"nodes":[],"latest":true,"best":false},
{"name":"checkpoint_000002","number":2,"path":"/runs/vit/checkpoints/checkpoint_000002","error":"'model.pt': 3 bytes, \u001b[31mexpected 9","created":null,"bytes":null,"files":null,"world_size":null,"epoch":null,"score":null,"metrics":null,"validation":null,"validation_error":null,"nodes":[],"latest":false,"best":false}
]
)");
  EXPECT_EQ(checkpoints_json({}), "[]\n");
}

TEST(CheckpointTable, SizesAreReadable) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(1024), "1.0 KiB");
  EXPECT_EQ(size_text((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(size_text(1ULL << 60), "1.0 EiB");
}

}  // namespace
}  // namespace train
