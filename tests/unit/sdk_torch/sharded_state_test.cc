#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/torch.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "lib/storage/manifest.h"
#include "sdk/torch/tensor_file.h"
#include "tests/unit/sdk_torch/failure_text.h"
#include "tests/unit/sdk_torch/fake_session.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::failure;
using ::testing::HasSubstr;

constexpr std::int64_t kRows = 7, kColumns = 5;

torch::Tensor whole() {
  return torch::arange(kRows * kColumns, torch::kFloat32).reshape({kRows, kColumns});
}

class Sharded : public ::testing::Test {
 protected:
  void SetUp() override {
    char pattern[] = "/tmp/train-sharded-XXXXXX";
    folder_ = ::mkdtemp(pattern);
    be(0, 1);
  }
  void TearDown() override { fs::remove_all(folder_); }
  static void be(int rank, int world_size) {
    testing::fake_worker() = {};
    testing::fake_worker().rank = rank;
    testing::fake_worker().world_size = world_size;
  }
  std::string folder() const { return folder_.string(); }
  void save(const ShardedState& state) const { save_state(folder(), {.sharded = {&state}}); }
  void load(const ShardedState& state) const { load_state(folder(), {.sharded = {&state}}); }
  /// Return this rank's rows or columns of the full tensor.
  static torch::Tensor part(std::int64_t dim) {
    const Share share = even_share(dim == 0 ? kRows : kColumns);
    return whole().narrow(dim, share.begin, share.size()).clone();
  }
  void save_as(int world_size, std::int64_t dim) const {
    for (int rank = 0; rank < world_size; ++rank) {
      be(rank, world_size);
      save(ShardedState().split("w", part(dim), dim, dim == 0 ? kRows : kColumns));
    }
  }

  fs::path folder_;
};

TEST(EvenShare, TheFirstRanksHaveTheRest) {
  EXPECT_EQ(even_share(7, 0, 3).size(), 3);
  EXPECT_EQ(even_share(7, 1, 3).begin, 3);
  EXPECT_EQ(even_share(7, 2, 3).begin, 5);
  EXPECT_EQ(even_share(7, 2, 3).end, 7);
  EXPECT_EQ(even_share(2, 2, 3).size(), 0);
}

TEST_F(Sharded, EveryWorldSizeReadsWhatAnotherWrote) {
  for (const int writers : {1, 2, 3, 8}) {
    for (const std::int64_t written : {0, 1}) {
      fs::remove_all(folder_);
      save_as(writers, written);
      for (const int readers : {1, 2, 4, 9}) {
        for (const std::int64_t read : {0, 1}) {
          for (int rank = 0; rank < readers; ++rank) {
            be(rank, readers);
            const torch::Tensor mine = torch::full_like(part(read), -1);
            load(ShardedState().split("w", mine, read, read == 0 ? kRows : kColumns));
            ASSERT_TRUE(torch::equal(mine, part(read)))
                << "dimension " << written << " of " << writers << " as " << read << " of "
                << readers << ", rank " << rank;
          }
        }
      }
    }
  }
}

TEST_F(Sharded, WhatAllHoldAlikeIsWrittenOnce) {
  const torch::nn::Linear linear(4, 3);
  const torch::Tensor step = torch::tensor(17, torch::kInt64);
  std::multiset<std::string> written;
  for (int rank = 0; rank < 3; ++rank) {
    be(rank, 3);
    save(ShardedState().replicated("model", *linear).replicated("step", step));
    char file[64];
    std::snprintf(file, sizeof file, "/rank-%04d/sharded.safetensors", rank);
    for (const auto& [name, tensor] : sdk::read_tensor_file(sdk::FileScan(folder() + file)).tensors)
      written.insert(name);
  }
  EXPECT_THAT(written, ElementsAre("model.bias", "model.weight", "step"));

  be(1, 2);
  torch::nn::Linear other(4, 3);
  torch::Tensor other_step = torch::zeros({}, torch::kInt64);
  load(ShardedState().replicated("model", *other).replicated("step", other_step));

  EXPECT_TRUE(torch::equal(other->weight, linear->weight));
  EXPECT_TRUE(torch::equal(other->bias, linear->bias));
  EXPECT_EQ(other_step.item<std::int64_t>(), 17);
}

TEST_F(Sharded, RanksMayAddReplicatedTensorsInDifferentOrders) {
  const torch::Tensor a = torch::tensor({1.0F}), b = torch::tensor({2.0F});
  be(0, 2);
  save(ShardedState().replicated("a", a).replicated("b", b));
  be(1, 2);
  save(ShardedState().replicated("b", b).replicated("a", a));

  be(0, 1);
  torch::Tensor loaded_a = torch::zeros({1}), loaded_b = torch::zeros({1});
  load(ShardedState().replicated("a", loaded_a).replicated("b", loaded_b));

  EXPECT_EQ(loaded_a.item<float>(), 1.0F);
  EXPECT_EQ(loaded_b.item<float>(), 2.0F);
}

TEST_F(Sharded, PiecesMayLieAnywhere) {
  // Four ranks hold a quarter each. Two ranks read halves that cross the quarters.
  for (int rank = 0; rank < 4; ++rank) {
    be(rank, 4);
    const std::int64_t row = rank < 2 ? 0 : 4, column = rank % 2 == 0 ? 0 : 2;
    const auto local = whole()
                           .slice(0, row, std::min(kRows, row + 4))
                           .slice(1, column, column == 0 ? 2 : kColumns)
                           .clone();
    save(ShardedState().piece("w", local, {kRows, kColumns}, {row, column}));
  }
  be(0, 1);
  const torch::Tensor middle = torch::zeros({5, 3});

  load(ShardedState().piece("w", middle, {kRows, kColumns}, {1, 1}));

  EXPECT_TRUE(torch::equal(middle, whole().slice(0, 1, 6).slice(1, 1, 4)));
}

TEST_F(Sharded, GoesBesideAModelAndAnOptimizer) {
  torch::nn::Linear linear(2, 2);
  torch::optim::SGD optimizer(linear->parameters(), 0.1);
  ShardedState sharded;
  sharded.split("w", part(0), 0, kRows);
  const auto refs = detail::state_of(linear, sharded, optimizer);

  EXPECT_EQ(refs.modules.size(), 1u);
  EXPECT_EQ(refs.optimizers.size(), 1u);
  EXPECT_EQ(refs.sharded.size(), 1u);
}

TEST_F(Sharded, APieceThatNoRankWroteIsNamed) {
  save_as(3, 0);
  fs::remove_all(folder_ / "rank-0001");
  be(0, 1);

  const std::string text = failure([&] {
    load(ShardedState().split("w", torch::zeros({kRows, kColumns}), 0, kRows));
  });

  EXPECT_EQ(text, "invalid_argument: " + folder() +
                      " does not fit the ShardedState: no file holds \"w\" [3:5, 0:5]");
}

TEST_F(Sharded, AllThatDoesNotFitIsNamed) {
  save_as(2, 0);
  be(0, 1);
  ShardedState state;
  state.piece("w", torch::zeros({kRows, 4}), {kRows, 4}, {0, 0}).replicated("v", torch::zeros({1}));

  EXPECT_THAT(failure([&] { load(state); }),
              HasSubstr("\"w\" has the shape [7, 5] there, [7, 4] here; missing \"v\""));
  EXPECT_THAT(
      failure([&] {
        load(ShardedState().split("w", torch::zeros({kRows, kColumns}, torch::kFloat64), 0, kRows));
      }),
      HasSubstr("\"w\" is F32 there, Double here"));
}

TEST_F(Sharded, RanksThatSavedDifferentTypesOrShapesAreNamed) {
  const auto saved_by_rank_1 = [&](const torch::Tensor& piece, std::vector<std::int64_t> shape,
                                   std::vector<std::int64_t> offset) {
    be(0, 2);
    save(ShardedState().piece("w", torch::ones({4, 5}), {7, 5}, {0, 0}));
    be(1, 2);
    save(ShardedState().piece("w", piece, std::move(shape), std::move(offset)));
    be(0, 1);
    return failure([&] {
      load(ShardedState().split("w", torch::zeros({kRows, kColumns}), 0, kRows));
    });
  };

  EXPECT_THAT(saved_by_rank_1(torch::ones({3, 5}, torch::kFloat64), {7, 5}, {4, 0}),
              HasSubstr("\"w\" is F64 there, Float here"));
  EXPECT_THAT(saved_by_rank_1(torch::ones({3}), {7}, {4}),
              HasSubstr("\"w\" has the shape [7] there, [7, 5] here"));
  EXPECT_THAT(saved_by_rank_1(torch::ones({5, 5}), {9, 5}, {4, 0}),
              HasSubstr("\"w\" has the shape [9, 5] there, [7, 5] here"));
}

TEST_F(Sharded, ACheckpointWithoutOneSaysSo) {
  save_state(folder(), {});

  EXPECT_EQ(failure([&] { load(ShardedState().replicated("v", torch::zeros({1}))); }),
            "not_found: " + folder() + " holds no rank-*/sharded.safetensors");
}

TEST_F(Sharded, MistakesOfTheCallerAreNamed) {
  be(0, 2);
  ShardedState state;
  EXPECT_EQ(failure([&] {
              state.split("w", torch::zeros({3, 5}), 0, kRows);
            }),
            "invalid_argument: ShardedState: \"w\" is to have rows 0 to 4 of 7 in dimension 0, and "
            "is [3, 5]");
  EXPECT_EQ(failure([&] { state.piece("w", torch::zeros({3}), {4}, {2}); }),
            "invalid_argument: ShardedState: a piece of [3] at [2] is not within \"w\" of [4]");
  state.replicated("w", torch::zeros({1}));
  EXPECT_EQ(failure([&] { state.replicated("w", torch::zeros({1})); }),
            "invalid_argument: ShardedState: \"w\" is there already");
}

/// Return the folder as a committed checkpoint.
sdk::CheckedFiles committed(const fs::path& folder) {
  std::vector<ManifestFile> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    files.push_back(
        {fs::relative(entry.path(), folder).string(), bytes.size(), digest_of(bytes), {Rank{0}}});
  }
  return {folder.string(), std::move(files)};
}

void flip_bit(const fs::path& path, std::uint64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  const char old = static_cast<char>(file.get());
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(old ^ 1));
}

TEST_F(Sharded, ACheckpointIsVerifiedWhileItIsRead) {
  for (const std::int64_t read : {0, 1}) {
    save_as(2, 0);
    const sdk::CheckedFiles files = committed(folder_);
    be(1, 4);
    const torch::Tensor mine = torch::full_like(part(read), -1);
    const ShardedState state = ShardedState().split("w", mine, read, read == 0 ? kRows : kColumns);

    detail::load_checked(files, {.sharded = {&state}});

    EXPECT_TRUE(torch::equal(mine, part(read)));
  }
}

TEST_F(Sharded, OneBitFlippedAnywhereInAFileThatIsReadIsFound) {
  save_as(2, 0);
  const sdk::CheckedFiles files = committed(folder_);
  const fs::path path = folder_ / "rank-0000/sharded.safetensors";
  be(0, 4);  // reads rows 0 and 1 of the four in the file
  const torch::Tensor mine = torch::zeros({2, kColumns});
  const ShardedState state = ShardedState().split("w", mine, 0, kRows);
  for (std::uint64_t at = 0; at < fs::file_size(path); ++at) {
    flip_bit(path, at);
    EXPECT_THAT(failure([&] { detail::load_checked(files, {.sharded = {&state}}); }),
                ::testing::StartsWith("corrupt: "))
        << at;
    flip_bit(path, at);
  }
  const fs::path other = folder_ / "rank-0001/sharded.safetensors";
  flip_bit(other, fs::file_size(other) - 1);

  detail::load_checked(files, {.sharded = {&state}});  // it does not need that file

  EXPECT_TRUE(torch::equal(mine, whole().narrow(0, 0, 2)));
  EXPECT_THAT(
      failure([&] { files.verify_rest(); }),
      HasSubstr("corrupt: " + folder() + ": 'rank-0001/sharded.safetensors': xxh3-128 is "));
}

TEST_F(Sharded, OfDamagedFilesTheFirstIsNamed) {
  save_as(7, 0);
  const sdk::CheckedFiles files = committed(folder_);
  be(0, 1);
  const ShardedState state = ShardedState().split("w", torch::zeros({kRows, kColumns}), 0, kRows);
  for (const char* rank : {"rank-0001", "rank-0002", "rank-0006"}) {
    const fs::path path = folder_ / rank / "sharded.safetensors";
    flip_bit(path, fs::file_size(path) - 1);
  }
  for (int again = 0; again < 100; ++again) {
    EXPECT_THAT(
        failure([&] { detail::load_checked(files, {.sharded = {&state}}); }),
        HasSubstr("corrupt: " + folder() + ": 'rank-0001/sharded.safetensors': xxh3-128 is "));
  }
}

TEST_F(Sharded, AHeaderWithoutPlacesIsCorrupt) {
  fs::create_directories(folder_ / "rank-0000");
  const sdk::StagedFile file = sdk::stage_tensors({{"w", torch::zeros({2})}}, {{"format", "pt"}});
  save(ShardedState());
  std::FILE* out = std::fopen((folder() + "/rank-0000/sharded.safetensors").c_str(), "wb");
  std::fwrite(file.header.data(), 1, file.header.size(), out);
  std::fwrite(file.data.data_ptr<std::uint8_t>(), 1, 8, out);
  std::fclose(out);

  EXPECT_EQ(failure([&] { load(ShardedState().replicated("w", torch::zeros({2}))); }),
            "corrupt: " + folder() +
                "/rank-0000/sharded.safetensors: its header does not locate its pieces");
}

}  // namespace
}  // namespace train
