// Maps on tensors, through iter_torch_batches.
#include <arrow/record_batch.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include "sdk/data/dataset_shard.h"
#include "sdk/data/map_registry.h"
#include "tests/fakes/session.h"

namespace train {
namespace {

class TorchMaps : public testing::Test {
 protected:
  ~TorchMaps() override {
    sdk::forget_dataset_shards();
    sdk::forget_maps();
  }

  static void add_items(List maps) {
    sdk::forget_dataset_shards();
    List steps;
    for (const Value& name : maps) steps.emplace_back(Dict{{"name", name}, {"arguments", Dict()}});
    fakes::session().info.datasets["train"] =
        Dict{{"format", "items"},
             {"items", List{Dict{{"x", List{1.0, 2.0}}, {"word", "a"}},
                            Dict{{"x", List{3.0, 4.0}}, {"word", "b"}}}},
             {"map", std::move(steps)}};
  }
  static std::string failure() {
    try {
      for (const Batch& batch : get_dataset_shard().iter_batches()) static_cast<void>(batch);
    } catch (const Failure& why) {
      return why.kind() + ": " + why.what();
    }
    return "no failure";
  }
};

TEST_F(TorchMaps, GiveTensorsWithoutRowsIfAFlatMapLeavesAllOut) {
  register_flat_map("none", [](const std::shared_ptr<arrow::RecordBatch>& rows, const MapContext&) {
    return FlatMapped{rows->RemoveColumn(0).ValueOrDie()->Slice(0, 0), {}};
  });
  add_items({"none"});
  for (const TorchBatch& batch : get_dataset_shard().iter_torch_batches()) {
    EXPECT_EQ(batch.valid_rows, 0);
    EXPECT_EQ(batch.columns.at("x").sizes(), torch::IntArrayRef({0, 0}));  // lists of any length
  }
}

TEST_F(TorchMaps, ChangeTensorsAndLeaveTextsAlone) {
  register_torch_map("change", [](TorchBatch batch, const MapContext& context) {
    EXPECT_EQ(batch.rows(), 2);
    EXPECT_EQ(context.dataset(), "train");
    EXPECT_FALSE(torch::GradMode::is_enabled());
    batch["x"].mul_(10);  // it is the map's own
    batch.columns["positive"] = batch["x"] > 15;
    batch.columns["image"] = torch::arange(24, torch::kInt32).reshape({2, 3, 4}).transpose(1, 2);
    return batch;
  });
  // A text is no tensor: it goes before the tensors are made.
  register_map("without_text", [](std::shared_ptr<arrow::RecordBatch> rows, const MapContext&) {
    EXPECT_EQ(rows->column_name(0), "word");
    return rows->RemoveColumn(0).ValueOrDie();
  });
  for (int pass = 0; pass < 2; ++pass) {
    add_items({"change", "without_text"});
    for (TorchBatch& batch : get_dataset_shard().iter_torch_batches()) {
      EXPECT_TRUE(batch["x"].equal(torch::tensor({{10., 20.}, {30., 40.}}, torch::kFloat64)));
      EXPECT_TRUE(batch["positive"].equal(torch::tensor({{false, true}, {true, true}})));
      EXPECT_TRUE(batch["image"].equal(
          torch::arange(24, torch::kInt32).reshape({2, 3, 4}).transpose(1, 2)));
    }
  }
}

TEST_F(TorchMaps, NameWhatDoesNotFit) {
  register_torch_map("complex", [](TorchBatch batch, const MapContext&) {
    batch.columns["z"] = torch::zeros({2}, torch::kComplexFloat);
    return batch;
  });
  register_torch_map("short", [](TorchBatch batch, const MapContext&) {
    batch.columns["x"] = batch["x"].slice(0, 0, 1);
    return batch;
  });
  register_torch_map("wrong", [](TorchBatch batch, const MapContext&) {
    batch["x"].matmul(torch::zeros({3, 3}));
    return batch;
  });

  add_items({"complex"});
  EXPECT_EQ(
      failure(),
      "invalid_argument: dataset 'train': map 'complex': in tensors: column 'z' is ComplexFloat "
      "(return bool, whole numbers, float16, float32 or float64)");
  add_items({"short"});
  EXPECT_EQ(
      failure(),
      "invalid_argument: dataset 'train': map 'short': in tensors: column 'x' has 1 rows, and the "
      "batch has 2");
  add_items({"wrong"});
  EXPECT_EQ(failure(),
            "internal: dataset 'train': map 'wrong': in tensors: mat1 and mat2 shapes cannot be "
            "multiplied (2x2 and 3x3)");
}

}  // namespace
}  // namespace train
