#include <train/torch_loop.h>

#include <cmath>

#include "sdk/torch/failure.h"

namespace train {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begun) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
}

}  // namespace

StepMeter::StepMeter() : begun_(std::chrono::steady_clock::now()) {}

void StepMeter::add(std::int64_t rows, const torch::Tensor& loss) {
  if (rows < 0 || !loss.defined() || loss.numel() != 1)
    sdk::raise(Error{Errc::InvalidArgument,
                     "StepMeter::add: give the number of rows, and their mean loss as one number"});
  const torch::NoGradGuard no_grad;
  ++batches_;
  last_rows_ = rows;
  if (rows == 0) return;  // the mean of none is not a number
  last_loss_ = loss.detach().to(torch::kFloat64).reshape({});
  const torch::Tensor sum = last_loss_ * static_cast<double>(rows);
  loss_sum_ = rows_ == 0 ? sum : loss_sum_ + sum;
  rows_ += rows;
}

Dict StepMeter::fields() {
  const auto number = [](const torch::Tensor& of) { return of.item<double>(); };
  const std::vector<double> all = detail::sums_over_ranks(
      {static_cast<double>(rows_), rows_ == 0 ? 0 : number(loss_sum_),
       static_cast<double>(last_rows_),
       last_rows_ == 0 ? 0 : number(last_loss_) * static_cast<double>(last_rows_)},
      "train::StepMeter");
  const double iteration_s = seconds_since(begun_);
  total_s_ += iteration_s;
  Dict fields{{"num_samples", std::llround(all[0])},
              {"batch_count", batches_},
              {"time_this_iter_s", iteration_s},
              {"time_total_s", total_s_}};
  if (all[0] > 0) fields["train_loss"] = all[1] / all[0];
  if (all[2] > 0) fields["last_train_loss"] = all[3] / all[2];
  rows_ = batches_ = last_rows_ = 0;
  begun_ = std::chrono::steady_clock::now();
  return fields;
}

Dict StepMeter::state() const { return {{"time_total_s", total_s_ + seconds_since(begun_)}}; }

void StepMeter::load_state(const Dict& state) {
  const auto total = Config(state).get<double>("time_total_s");
  if (!std::isfinite(total) || total < 0)
    sdk::raise(Error{Errc::Corrupt, "\"time_total_s\" is not a time"});
  *this = StepMeter();
  total_s_ = total;
}

}  // namespace train
