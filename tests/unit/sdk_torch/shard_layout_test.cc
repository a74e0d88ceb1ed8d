#include "sdk/torch/shard_layout.h"

#include <gtest/gtest.h>

#include <random>

namespace train::sdk {
namespace {

using Shape = std::vector<std::int64_t>;

TEST(ShardLayout, AScalarIsOneRowOfTheFirstRank) {
  const UnitLayout unit = layout_of({{}, {0, 3}, {5, 2}}, 2);

  EXPECT_EQ(unit.parameters[0].piece_shape(0, 2), Shape{});
  EXPECT_EQ(unit.parameters[0].piece_shape(1, 2), Shape{0});
  EXPECT_EQ(unit.parameters[1].piece_shape(0, 2), (Shape{0, 3}));
  EXPECT_EQ(unit.parameters[2].piece_shape(0, 2), (Shape{3, 2}));
  EXPECT_EQ(unit.parameters[2].piece_shape(1, 2), (Shape{2, 2}));
}

TEST(ShardLayout, NoTwoParametersOverlapAndEachRankHasRoom) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Shape> shapes;
    for (int i = 0; i < 6; ++i) {
      Shape shape;
      for (auto d = random() % 4; d > 0; --d)
        shape.push_back(static_cast<std::int64_t>(random() % 40));
      shapes.push_back(shape);
    }
    const int ranks = 1 + static_cast<int>(random() % 9);
    const UnitLayout unit = layout_of(shapes, ranks);
    std::int64_t in_unit = 0, in_segment = 0;
    for (const ShardLayout& each : unit.parameters) {
      EXPECT_EQ(each.in_unit % 16 + each.in_segment % 16, 0);
      EXPECT_GE(each.in_unit, in_unit);
      EXPECT_GE(each.in_segment, in_segment);
      in_unit = each.in_unit + each.size();
      in_segment = each.in_segment + (each.rows + ranks - 1) / ranks * each.row_size;
    }
    EXPECT_LE(in_unit, unit.size);
    EXPECT_LE(in_segment, unit.segment);
  }
}

}  // namespace
}  // namespace train::sdk
