#include <train/torch_loop.h>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "sdk/client/progress.h"
#include "sdk/torch/failure.h"

namespace train {

std::vector<double> detail::sums_over_ranks(std::vector<double> mine, const char* doing) {
  const auto group = process_group();
  if (!group) return mine;
  const sdk::InPhase waiting(Phase::Collective, doing);
  return sdk::guarded(doing, [&] {
    std::vector<torch::Tensor> sums{torch::tensor(mine, torch::kFloat64).to(device())};
    group->allreduce(sums)->wait();
    const torch::Tensor all = sums[0].cpu();
    return std::vector<double>(all.data_ptr<double>(), all.data_ptr<double>() + all.numel());
  });
}

std::vector<double> detail::row_weights(const std::vector<std::int64_t>& rows) {
  double mine = 0;
  for (const std::int64_t count : rows) mine += static_cast<double>(count);
  // Sum the ranks along with the rows: 1 from each.
  const std::vector<double> all = sums_over_ranks({mine, 1}, "train::accumulate");
  std::vector<double> weights;
  for (const std::int64_t count : rows)
    weights.push_back(all[0] > 0 ? static_cast<double>(count) * all[1] / all[0] : 0);
  return weights;
}

void detail::check_accumulation(std::int64_t count) {
  if (count >= 1 && count <= 65536) return;
  sdk::raise(Error{Errc::InvalidArgument,
                   "train::accumulate: a step of " + std::to_string(count) + " batches",
                   "give 1 to 65536"});
}

}  // namespace train
