// Histograms for TensorBoard: how the values of a tensor (weights, gradients, activations) are
// distributed. Tensors of LibTorch: see torch.h.
#pragma once

#include <span>
#include <string_view>

namespace train {

struct HistogramOptions {
  int bins = 30;  // of equal width, from the smallest finite value to the largest; 1 to 256
};

/// Count the values into bins, and keep the counts for this rank's next report(), which hands them
/// over: TensorBoard shows them under `name` at the step of that report. The values are read twice
/// before this returns, and not kept. NaN and infinities are not in the bins: the scalars
/// "NAME/nan" and "NAME/inf" say how many there were, once there were any.
///
/// Only rank 0's histograms are kept, and only under train-run, with `tensorboard` in
/// run_config.callbacks; otherwise the call checks its arguments and does nothing else, so all
/// ranks may make it. A later histogram of the same name replaces one that still waits for a
/// report. One report takes at most 64 histograms, and 32 KiB of them (at the default of 30 bins,
/// 64 always fit if their names are short). Names have 1 to 256 bytes, and should differ from those
/// of metrics. Throws Failure("invalid_argument") that names the histogram for what does not fit.
/// Any thread may call this.
void histogram(std::string_view name, std::span<const float> values,
               const HistogramOptions& options = {});
void histogram(std::string_view name, std::span<const double> values,
               const HistogramOptions& options = {});

}  // namespace train
