// Helpers for the training loop over LibTorch: mixed precision, accumulation, clipping, schedules
// of the learning rate, reproducible runs, the fields of a report. Link trainrun::torch. Errors are
// train::Failure, as torch.h says. Use each object from one thread.
//
//   train::GradScaler scaler({.dtype = dtype});
//   train::LrSchedule schedule(optimizer, train::lr::warmup(500).cosine(9500));
//   for (auto& micro : train::accumulate(model, shard.iter_torch_batches(), 4)) {
//     const auto loss = [&] {
//       const train::Autocast autocast({.dtype = dtype});
//       return loss_of(model(micro.batch["x"]), micro.batch["y"]) * micro.weight;
//     }();
//     scaler.scale(loss).backward();
//     if (!micro.last) continue;
//     scaler.unscale(optimizer);  // once a step, before the gradients are looked at
//     train::clip_grad_norm(optimizer, 1.0);
//     if (scaler.step(optimizer)) schedule.step();
//     scaler.update();
//     optimizer.zero_grad();
//   }
#pragma once

#include <train/torch.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace train {

// ---- mixed precision (torch.amp of PyTorch)

struct AutocastOptions {
  std::optional<torch::DeviceType> device = {};  // kCPU or kCUDA; none: that of device()
  /// kBFloat16 or kFloat16; none: LibTorch's own for the device, bfloat16 on CPUs, float16 on GPUs.
  std::optional<torch::Dtype> dtype = {};
  bool enabled = true;  // false: the operators within compute in the types of their inputs
  /// Keep the casts of parameters until the outermost Autocast ends; none: as it is outside (true).
  std::optional<bool> cache_enabled = {};
};

/// While it lives, operators that profit from it (matrix products, convolutions) compute in `dtype`
/// on this thread, and those that need the range (losses, norms, exp) in float32, as in
/// torch.autocast. Parameters and their gradients keep their types. Put the forward pass and the
/// loss into it, not the backward pass. Objects end in the reverse order of their beginnings.
class Autocast {
 public:
  explicit Autocast(const AutocastOptions& options = {});
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  torch::DeviceType device_;
  bool enabled_before_;
  torch::Dtype dtype_before_;
  bool cache_before_;
};

struct GradScalerOptions {
  double init_scale = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  // steps without an overflow until the scale grows
  bool enabled = true;
  /// What Autocast computes in. Only float16 needs a scale: with any other type, the scaler is off.
  torch::Dtype dtype = torch::kHalf;
};

/// Scales losses so that small gradients do not vanish in float16, and finds a scale at which large
/// ones do not overflow: torch.amp.GradScaler, with its names, defaults and results. A step whose
/// gradients hold an infinity or NaN is left out, and halves the scale. When it is off, scale() and
/// unscale() do nothing, and step() steps. Ranks with a prepared model take the same decisions,
/// because their gradients are the same; with a sharded model they agree, and unscale() is
/// collective. from_state(model, optimizer, scaler) saves it.
class GradScaler final : public Stateful {
 public:
  explicit GradScaler(const GradScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  /// Return `outputs` times the scale.
  torch::Tensor scale(const torch::Tensor& outputs);
  /// Divide the gradients by the scale. Call it once a step, after all backward passes of the step,
  /// when you look at the gradients or clip them; step() does it otherwise. Throws
  /// Failure("invalid_argument") for a second call, and for gradients in float16.
  void unscale(torch::optim::Optimizer& optimizer);
  /// Let the optimizer step, unless a gradient was not finite. Return whether it did.
  bool step(torch::optim::Optimizer& optimizer);
  /// Set the scale of the next step. Call it once, after step() of each optimizer.
  void update();

  bool is_enabled() const { return enabled_; }
  double get_scale() const;             // 1 when off; waits for the device
  std::int64_t growth_tracker() const;  // steps since the last change; waits for the device
  std::int64_t skipped_steps() const { return skipped_steps_; }

  std::string kind() const override { return "GradScaler"; }
  /// As PyTorch's state_dict(), and skipped_steps; empty when off.
  Dict state() const override;
  void load_state(const Dict& state) override;

 private:
  enum class Stage { Scaled, Unscaled, Stepped };
  struct OfOptimizer {
    Stage stage = Stage::Scaled;
    std::vector<torch::Tensor> found_inf;  // by device and type: 1 if a gradient was not finite
  };
  void check_scaled(const char* call) const;

  GradScalerOptions options_;
  bool enabled_;
  torch::Tensor scale_, growth_tracker_;  // on the loss's device; undefined before its first scale
  std::int32_t saved_growth_tracker_ = 0;
  std::int64_t skipped_steps_ = 0;
  std::map<const torch::optim::Optimizer*, OfOptimizer> optimizers_;  // since the last update()
};

// ---- clipping

struct ClipOptions {
  double norm_type = 2;                   // infinity: the largest absolute value
  std::int64_t* skipped_steps = nullptr;  // is raised by one for a norm that is not finite
};

struct ClippedNorm {
  double norm = 0;  // of all gradients together, before
  bool skipped = false;
};

/// Scale the gradients so that their norm is at most `max_norm`, as
/// torch.nn.utils.clip_grad_norm_ does, to the same bits. If the norm is not finite, remove the
/// gradients instead: the optimizer's next step then changes neither parameters nor its state, on
/// no rank, because all ranks of a prepared model have the same gradients. Of a sharded model's
/// parameters, it is the norm over all ranks, and the call is collective. Call it once a step,
/// after the last backward pass, and after GradScaler::unscale(). Waits for the device.
ClippedNorm clip_grad_norm(const std::vector<torch::Tensor>& parameters, double max_norm,
                           const ClipOptions& options = {});
ClippedNorm clip_grad_norm(torch::optim::Optimizer& optimizer, double max_norm,
                           const ClipOptions& options = {});

// ---- learning rates

/// The learning rate as a factor of each group's own, a function of the optimizer steps made so
/// far. It is made of phases, one after the other; each begins at the factor at which the one
/// before it ends. After the last one, the factor stays. The functions in train::lr begin one.
class LrCurve {
 public:
  explicit LrCurve(double begin = 1) : begin_(begin) {}
  /// Any function of the steps made so far (torch.optim.lr_scheduler.LambdaLR).
  explicit LrCurve(std::function<double(std::int64_t step)> factor);

  LrCurve constant(std::int64_t steps) const;
  /// In a straight line to `end` (LinearLR).
  LrCurve linear(std::int64_t steps, double end = 0) const;
  /// Along half a cosine to `end` (CosineAnnealingLR of Loshchilov and Hutter, arXiv:1608.03983,
  /// with T_max = steps).
  LrCurve cosine(std::int64_t steps, double end = 0) const;
  /// Times `gamma` after each `every` steps, for ever (StepLR).
  LrCurve steps(std::int64_t every, double gamma = 0.1) const;
  /// Times `gamma` at each of these steps, counted from the beginning of the phase (MultiStepLR).
  LrCurve milestones(std::vector<std::int64_t> at, double gamma = 0.1) const;

  double operator()(std::int64_t step) const;

 private:
  struct Phase {
    std::int64_t steps = 0;
    std::function<double(double begin, std::int64_t step)> factor;  // step: of the phase
  };
  LrCurve then(std::int64_t steps, std::function<double(double, std::int64_t)> factor) const;

  double begin_ = 1;
  std::vector<Phase> phases_;
};

/// The defaults of torch.optim.lr_scheduler.OneCycleLR (Smith and Topin, arXiv:1708.07120). The
/// groups' own learning rate is max_lr. Momentum does not change (cycle_momentum=False).
struct OneCycleOptions {
  std::int64_t total_steps = 0;
  double pct_start = 0.3;
  double div_factor = 25;         // the first factor is 1 / div_factor
  double final_div_factor = 1e4;  // the last one is the first one / final_div_factor
  bool linear = false;            // along straight lines, not cosines
  bool three_phase = false;
};

namespace lr {
/// Rise from `begin` to 1 in a straight line: the first step has the factor `begin`.
inline LrCurve warmup(std::int64_t steps, double begin = 0) {
  return LrCurve(begin).linear(steps, 1);
}
inline LrCurve constant() { return LrCurve(); }
inline LrCurve linear(std::int64_t steps, double end = 0) { return LrCurve().linear(steps, end); }
inline LrCurve cosine(std::int64_t steps, double end = 0) { return LrCurve().cosine(steps, end); }
inline LrCurve steps(std::int64_t every, double gamma = 0.1) {
  return LrCurve().steps(every, gamma);
}
inline LrCurve milestones(std::vector<std::int64_t> at, double gamma = 0.1) {
  return LrCurve().milestones(std::move(at), gamma);
}
inline LrCurve lambda(std::function<double(std::int64_t step)> factor) {
  return LrCurve(std::move(factor));
}
LrCurve one_cycle(const OneCycleOptions& options);
}  // namespace lr

/// The defaults of torch.optim.lr_scheduler.ReduceLROnPlateau.
struct PlateauOptions {
  bool maximize = false;       // larger metrics are better
  double factor = 0.1;         // of the learning rate, when the metric stays
  std::int64_t patience = 10;  // calls without a better metric that are borne
  double threshold = 1e-4;     // a better metric is better by this part of the best one
  bool absolute = false;       // by this much, not by this part
  std::int64_t cooldown = 0;   // calls after a change that count nothing
  double min_lr = 0;
  double eps = 1e-8;  // a smaller change is not made
};

/// Sets the learning rates of an optimizer's groups: to a function of the steps that it has made,
/// or lower whenever a metric stays. It begins with the rates that the groups have when it is made.
/// from_state(model, optimizer, schedule) saves the steps and the groups' own rates; after load(),
/// the rates are those of that step. The optimizer must outlive it.
class LrSchedule final : public Stateful {
 public:
  LrSchedule(torch::optim::Optimizer& optimizer, LrCurve curve);
  LrSchedule(torch::optim::Optimizer& optimizer, const PlateauOptions& plateau);

  /// Call it after each step of the optimizer. (Where GradScaler or clip_grad_norm left one out,
  /// leave this out, too, if the schedule is to count steps that were made.)
  void step();
  /// Call it with each new value of the metric. All ranks must give the same, so reduce() it.
  void step(double metric);

  std::int64_t steps() const { return steps_; }  // calls of step()
  double lr(std::size_t group = 0) const;        // of a group of the optimizer, now

  std::string kind() const override { return plateau_ ? "LrSchedule(plateau)" : "LrSchedule"; }
  Dict state() const override;
  void load_state(const Dict& state) override;

 private:
  void set(std::int64_t steps, std::vector<double> base);
  void reduce();

  torch::optim::Optimizer* optimizer_;
  LrCurve curve_;
  std::optional<PlateauOptions> plateau_;
  std::vector<double> base_;  // the groups' own rates
  std::int64_t steps_ = 0;
  // Of a plateau:
  std::optional<double> best_;
  std::int64_t bad_ = 0, cooldown_ = 0;
};

// ---- reproducible runs

/// Have LibTorch compute the same bits in each run at the same world size, on the same kind of
/// device: deterministic algorithms only (an operator that has none throws), no search for the
/// fastest one, and the generators of all devices seeded with `seed` + rank. Call it first in the
/// loop. GPUs need CUBLAS_WORKSPACE_CONFIG from the start of the process, which
/// `backend_config.deterministic: true` of the spec sets; without it, this throws
/// Failure("invalid_argument").
void reproducible(std::uint64_t seed);

// ---- accumulation

/// Part `batch` of a step.
template <class Batch>
struct MicroBatch {
  Batch batch;
  /// Multiply the mean loss of the batch's rows by it: the gradients of the step are then the mean
  /// over all rows of all its batches on all ranks, whatever numbers of rows those have.
  double weight = 1;
  /// Step now: the backward pass of this batch averages the gradients over the ranks.
  bool last = true;
};

/// Count the rows of a batch that are not repeats: its weight in a step.
inline std::int64_t rows_in(const TorchBatch& batch) { return batch.valid_rows; }
inline std::int64_t rows_in(const torch::Tensor& batch) { return batch.size(0); }
template <class T>
std::int64_t rows_in(const std::vector<T>& batch) {
  return static_cast<std::int64_t>(batch.size());
}
template <class Data, class Target>
std::int64_t rows_in(const torch::data::Example<Data, Target>& batch) {
  return rows_in(batch.data);
}

namespace detail {
/// Add numbers up over all ranks, by c10d. Collective.
std::vector<double> sums_over_ranks(std::vector<double> mine, const char* doing);
/// Return each batch's rows, as a part of all ranks' rows in all batches, times the number of
/// ranks. Collective.
std::vector<double> row_weights(const std::vector<std::int64_t>& rows);
void check_accumulation(std::int64_t count);

template <class Model, class Batches>
class Accumulation {
 public:
  using Source = decltype(std::begin(std::declval<std::remove_reference_t<Batches>&>()));
  using End = decltype(std::end(std::declval<std::remove_reference_t<Batches>&>()));
  using Batch = std::decay_t<decltype(*std::declval<Source&>())>;

  Accumulation(Model model, Batches&& batches, std::int64_t count)
      : model_(std::move(model)), batches_(std::forward<Batches>(batches)), count_(count) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = MicroBatch<Batch>;
    using difference_type = std::ptrdiff_t;
    using pointer = value_type*;
    using reference = value_type&;
    Iterator() = default;
    explicit Iterator(Accumulation& of) : of_(&of) { of_->next(); }
    reference operator*() const { return of_->step_[of_->at_]; }
    pointer operator->() const { return &**this; }
    Iterator& operator++() {
      of_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return ended() == other.ended(); }

   private:
    bool ended() const { return of_ == nullptr || of_->step_.empty(); }
    Accumulation* of_ = nullptr;
  };

  /// May be called once.
  Iterator begin() {
    source_.emplace(std::begin(batches_));
    end_.emplace(std::end(batches_));
    return Iterator(*this);
  }
  Iterator end() { return {}; }

 private:
  void next() {
    no_sync_.reset();
    if (++at_ >= step_.size()) fill();
    if (!step_.empty() && !step_[at_].last)
      no_sync_ = std::unique_ptr<NoSync>(new NoSync(model_.no_sync()));
  }
  // Read no batch before the loop is done with the step before it: a checkpoint that is made there
  // counts the rows of that step, and no others.
  void fill() {
    step_.clear();
    at_ = 0;
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < count_ && !ended_; ++i) {
      if (begun_) ++*source_;
      begun_ = true;
      ended_ = *source_ == *end_;
      if (ended_) break;
      step_.push_back({**source_, 1, false});
      rows.push_back(rows_in(step_.back().batch));
    }
    if (step_.empty()) return;
    step_.back().last = true;
    const std::vector<double> weights = row_weights(rows);
    for (std::size_t i = 0; i < step_.size(); ++i) step_[i].weight = weights[i];
  }

  Model model_;
  Batches batches_;
  std::int64_t count_;
  std::optional<Source> source_;
  std::optional<End> end_;
  bool begun_ = false, ended_ = false;
  std::vector<MicroBatch<Batch>> step_;
  std::size_t at_ = std::numeric_limits<std::size_t>::max();  // next() makes it 0
  std::unique_ptr<NoSync> no_sync_;
};

}  // namespace detail

/// Loop over `batches` (any range of them: iter_torch_batches(), a data loader, a vector) as parts
/// of steps of `count` batches each; the last step may have fewer. Gradients add up on this rank,
/// and only the last backward pass of a step communicates. `model` is what prepare_model or
/// fully_shard returned. All ranks must have equally many
/// batches; where a step begins, they add up how many rows each has. Unscale, clip and step when
/// `last` is true, and then zero the gradients. It reads a step's batches before it hands out the
/// first one. Batches of a type of your own need a function rows_in() beside the type. Leave the
/// loop early only on all ranks.
template <class Model, class Batches>
requires requires(const Model& model) {
  { model.no_sync() } -> std::same_as<NoSync>;
}
detail::Accumulation<Model, Batches> accumulate(const Model& model, Batches&& batches,
                                                std::int64_t count) {
  detail::check_accumulation(count);
  return {model, std::forward<Batches>(batches), count};
}

// ---- the fields of a report

/// Counts what a loop has trained on, for reports: fields as Ray's TrainingOperator gives them,
/// over all ranks. from_state(model, optimizer, meter) keeps time_total_s.
class StepMeter final : public Stateful {
 public:
  StepMeter();
  /// Count a batch of this rank: the rows that are not repeats, and their mean loss. The loss stays
  /// on its device.
  void add(std::int64_t rows, const torch::Tensor& loss);
  /// Return num_samples, train_loss and last_train_loss (of the newest batch) over all ranks,
  /// weighted by rows, batch_count of this rank, time_this_iter_s and time_total_s; and count anew.
  /// Without rows, there are no losses. Collective.
  Dict fields();

  std::string kind() const override { return "StepMeter"; }
  Dict state() const override;
  void load_state(const Dict& state) override;

 private:
  std::int64_t rows_ = 0, batches_ = 0, last_rows_ = 0;
  torch::Tensor loss_sum_, last_loss_;
  std::chrono::steady_clock::time_point begun_;
  double total_s_ = 0;  // until begun_
};

}  // namespace train
