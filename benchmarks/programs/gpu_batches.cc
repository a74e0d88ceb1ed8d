// Times steps that read pictures and keep train::device() busy, started by train-run with a dataset
// "train" of a column `data` of bytes (a .npy file of pictures). In turn: batches that the reading
// thread copies to the device ("ours"), batches that the loop copies before its own work ("loop"),
// and one batch that is there already ("resident"). Prints lines "WHAT MILLISECONDS-A-STEP".
//   train_loop_config: batch, products (of the work in a step), rounds
// gpu_batches.py does the same with PyTorch's DataLoader.
#include <train/torch.h>
#include <train/train.h>

#include <chrono>
#include <cstdio>

namespace {

constexpr int kSize = 4096;

struct Work {
  torch::Tensor matrix = torch::full({kSize, kSize}, 1.0 / kSize,
                                     torch::device(train::device()).dtype(torch::kFloat32));
  int products = 1;

  void step(const torch::Tensor& pictures) {
    torch::Tensor made = pictures.mean() + matrix;
    for (int i = 0; i < products; ++i) made = made.mm(matrix);
    matrix = made / made.amax() / kSize;
  }
};

/// Print how long a step of `steps` takes that `body` makes.
template <class Body>
void measure(const char* what, Body body) {
  torch::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  const int steps = body();
  torch::cuda::synchronize();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  std::printf("%s %.2f\n", what, took.count() / steps);
  std::fflush(stdout);
}

void compare(const train::Config& config) {
  const auto batch = config.get<int>("batch");
  Work work{.products = config.get<int>("products")};
  auto shard = train::get_dataset_shard("train");
  torch::Tensor one;
  const auto ours = [&] {
    int steps = 0;
    for (auto& rows : shard.iter_torch_batches({.batch_size = batch,
                      .prefetch_bytes = std::int64_t{1} << 30,
                      .dtypes = {{"data", torch::kFloat32}}})) {
      one = rows["data"];
      work.step(one);
      ++steps;
    }
    return steps;
  };
  const auto loop = [&] {
    int steps = 0;
    for (auto& rows : shard.iter_torch_batches({.batch_size = batch,
                      .prefetch_bytes = std::int64_t{1} << 30,
                      .dtypes = {{"data", torch::kFloat32}},
                      .device = torch::Device(torch::kCPU),
                      .pin_memory = true})) {
      work.step(rows["data"].to(train::device(), /*non_blocking=*/true));
      ++steps;
    }
    return steps;
  };
  const auto resident = [&] {
    for (int step = 0; step < 30; ++step) work.step(one);
    return 30;
  };
  ours();  // makes its memory, and warms the page cache
  for (int round = 0; round < config.get<int>("rounds"); ++round) {
    measure("ours", ours);
    measure("loop", loop);
    measure("resident", resident);
  }
}

}  // namespace

int main(int argc, char** argv) { return train::run(argc, argv, compare); }
