// A dataset of numbers, for tests of loaders.
#pragma once

#include <gtest/gtest.h>
#include <train/torch.h>

#include <cstdint>
#include <stdexcept>
#include <vector>

namespace train {

/// Row i is the number i.
struct Numbers : torch::data::Dataset<Numbers> {
  explicit Numbers(std::int64_t count, std::size_t broken_row = SIZE_MAX)
      : rows(count), broken(broken_row) {}
  torch::data::Example<> get(std::size_t index) override {
    if (index == broken) throw std::runtime_error("this row cannot be read");
    const auto value = torch::full({1}, static_cast<std::int64_t>(index));
    return {value, value + 100};
  }
  torch::optional<std::size_t> size() const override { return static_cast<std::size_t>(rows); }
  std::int64_t rows;
  std::size_t broken;
};

template <class Loader>
std::vector<std::int64_t> pass(Loader& loader) {
  std::vector<std::int64_t> seen;
  for (auto& batch : loader) {
    for (std::int64_t i = 0; i < batch.data.size(0); ++i) {
      EXPECT_EQ(batch.target[i].template item<std::int64_t>(),
                batch.data[i].template item<std::int64_t>() + 100);
      seen.push_back(batch.data[i].template item<std::int64_t>());
    }
  }
  return seen;
}

/// Leave a loop after this many batches. Return the rows that it saw.
template <class Loader>
std::vector<std::int64_t> leave_after(std::size_t batches, Loader& loader) {
  std::vector<std::int64_t> seen;
  for (auto& batch : loader) {
    for (std::int64_t i = 0; i < batch.data.size(0); ++i)
      seen.push_back(batch.data[i].template item<std::int64_t>());
    if (--batches == 0) break;
  }
  return seen;
}

inline torch::data::DataLoaderOptions pairs(std::size_t workers) {
  return torch::data::DataLoaderOptions().batch_size(2).workers(workers);
}

}  // namespace train
