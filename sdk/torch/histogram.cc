#include <train/torch.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "sdk/client/session.h"

namespace train {
namespace {

constexpr std::int64_t kPieceValues = 1 << 20;

/// Call f(std::span<const double>) with all values, piece by piece.
template <class F>
void for_pieces(const torch::Tensor& values, const F& f) {
  for (std::int64_t begin = 0; begin < values.numel(); begin += kPieceValues) {
    const std::int64_t size = std::min(kPieceValues, values.numel() - begin);
    const torch::Tensor piece =
        values.narrow(0, begin, size).to(torch::kCPU).to(torch::kFloat64).contiguous();
    f(std::span<const double>(piece.const_data_ptr<double>(), static_cast<std::size_t>(size)));
  }
}

void check(std::string_view name, const torch::Tensor& values) {
  const char* what = !values.defined()                    ? "undefined"
                     : values.is_complex()                ? "complex"
                     : values.is_quantized()              ? "quantized"
                     : values.layout() != torch::kStrided ? "sparse"
                                                          : nullptr;
  if (what != nullptr) {
    throw Failure("invalid_argument", "histogram '" + std::string(name) + "': the tensor is " +
                                          what + " (its values must be real numbers)");
  }
}

}  // namespace

void histogram(std::string_view name, const torch::Tensor& values,
               const HistogramOptions& options) {
  auto counter = sdk::begin_histogram(name, options.bins);
  check(name, values);
  if (!counter) return;
  const torch::NoGradGuard no_grad;
  const torch::Tensor flat = values.detach().reshape({-1});
  for_pieces(flat, [&](std::span<const double> piece) { counter->look(piece); });
  for_pieces(flat, [&](std::span<const double> piece) { counter->count(piece); });
  sdk::add_histogram(name, counter->histogram());
}

}  // namespace train
