// Training with LibTorch that a driver steers pass by pass, as RaySGD's TrainingOperator did: the
// operator is what each worker does, the OperatorTrainer says what comes next. Link
// trainrun::torch. docs/driver.md has the rest.
//
//   struct Digits final : train::TrainingOperator<> {
//     void setup(const train::Config& config) override {       // in each worker
//       auto model = register_model(Net());
//       auto& optimizer =
//           register_optimizer<torch::optim::SGD>(model->parameters(), config.get<double>("lr"));
//       register_schedule(optimizer, train::lr::cosine(20), train::SchedulerStep::Epoch);
//       register_criterion(torch::nn::CrossEntropyLoss());
//       register_data(loader_of("train"), loader_of("test"));  // what prepare_data_loader returned
//     }
//   };
//
//   int main(int argc, char** argv) {
//     auto trainer = train::operate<Digits>(
//         argc, argv, {{"scaling_config.num_workers", 4}, {"train_loop_config.lr", 0.1}});
//     while (trainer.validate().at("val_accuracy").as<double>() < 0.97) trainer.train();
//     trainer.save("digits");
//   }
#pragma once

#include <train/operator_trainer.h>
#include <train/serve.h>
#include <train/torch.h>
#include <train/torch_loop.h>
#include <train/train.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace train {

/// When a schedule of the learning rate steps by itself.
enum class SchedulerStep {
  Batch,  // after each batch of train_epoch()
  Epoch,  // after each pass
  Manual  // never: OperatorTrainer::update_scheduler() steps it
};

/// What the functions for a batch, or for a pass, are told.
struct BatchInfo {
  std::int64_t epoch = 0;        // passes over the data that are done
  std::int64_t batch_idx = 0;    // counts from 0 in the pass
  std::int64_t global_step = 0;  // batches trained before this one, in all passes
  Dict info = {};                // PassOptions::info, from the driver
};

/// The batches of one pass, to loop over once. Reads a batch when the loop comes to it.
template <class Batch>
class PassBatches {
 public:
  using Next = std::function<std::optional<Batch>()>;
  PassBatches(Next next, std::optional<std::int64_t> count)
      : next_(std::move(next)), left_(count) {}

  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;
    Iterator() = default;
    explicit Iterator(PassBatches& of) : of_(&of), batch_(of.take()) {}
    reference operator*() { return *batch_; }
    pointer operator->() { return &*batch_; }
    Iterator& operator++() {
      batch_.reset();  // before the next one is read
      batch_ = of_->take();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const {
      return batch_.has_value() == other.batch_.has_value();
    }

   private:
    PassBatches* of_ = nullptr;
    std::optional<Batch> batch_;
  };
  Iterator begin() { return Iterator(*this); }
  Iterator end() { return {}; }

 private:
  std::optional<Batch> take() {
    if (left_ && (*left_)-- <= 0) return std::nullopt;
    return next_();
  }
  Next next_;
  std::optional<std::int64_t> left_;
};

namespace detail {

/// The mean of each number that the batches of a pass give, weighted by their num_samples.
class PassMeans {
 public:
  /// Take in a batch's metrics. Throws Failure("invalid_argument") for one that is no number.
  void add(const Dict& metrics);
  /// Return the means, num_samples, batch_count, and if `last`, the newest value of each as
  /// "last_…".
  Dict summary(bool last) const;

 private:
  struct Sum {
    double total = 0, weight = 0, last = 0;
  };
  std::map<std::string, Sum> sums_;
  std::int64_t samples_ = 0, batches_ = 0;
};

/// What operators of all kinds of batches have in common. Make a TrainingOperator.
class OperatorBase {
 public:
  virtual ~OperatorBase();
  OperatorBase(const OperatorBase&) = delete;
  OperatorBase& operator=(const OperatorBase&) = delete;

  // ---- what programs override

  /// Make models, optimizers and data, and register them. `config` is train_loop_config. Called
  /// once in each worker, before everything else. Collective, as prepare_model is.
  virtual void setup(const Config& config) = 0;
  /// Return more state for checkpoints. Rank 0's is kept.
  virtual Dict state() const { return {}; }
  /// Take what state() has returned, on every rank.
  virtual void load_state(const Dict& /*state*/) {}

  // ---- what operators know

  std::int64_t epoch() const { return epoch_; }              // passes over the data that are done
  std::int64_t global_step() const { return global_step_; }  // batches that are done

  /// Serve the driver's calls until the run is stopped, which throws Stopped. The training loop of
  /// run_operator() and operate().
  [[noreturn]] void serve_calls(const Config& config);

 protected:
  OperatorBase();

  // ---- what setup() calls

  /// Have the ranks train `model` together, prepare_model(model, options), and return that. What
  /// prepare_model() or fully_shard() has returned is taken as it is.
  template <class M>
  auto register_model(const M& model, const DataParallelOptions& options = {}) {
    if constexpr (requires { model.no_sync(); }) {
      keep_model(model);
      return model;
    } else {
      auto prepared = prepare_model(model, options);
      keep_model(prepared);
      return prepared;
    }
  }
  /// Move `model` to device(), and nothing else: each rank trains its own (RaySGD's
  /// wrap_ddp=False). Checkpoints hold rank 0's.
  template <class M>
  M register_local_model(const M& model) {
    ModuleOf<M>::pointer(model)->to(device());
    keep_model(model);
    return model;
  }
  /// Make an optimizer, and keep it: register_optimizer<torch::optim::SGD>(parameters, options).
  template <class Optimizer, class... Args>
  Optimizer& register_optimizer(Args&&... args) {
    auto made = std::make_unique<Optimizer>(std::forward<Args>(args)...);
    Optimizer& optimizer = *made;
    collect_state(state_, optimizer);
    optimizers_.push_back(std::move(made));
    return optimizer;
  }
  LrSchedule& register_schedule(torch::optim::Optimizer& optimizer, LrCurve curve,
                                SchedulerStep step);
  /// Reduces the rate when the metric of OperatorTrainer::update_scheduler(metric) stays.
  LrSchedule& register_schedule(torch::optim::Optimizer& optimizer, const PlateauOptions& plateau);
  /// How the default train_batch() and validate_batch() get the loss of (output, target): a module
  /// of torch::nn, which is moved to device(), or any function of them.
  template <class Criterion>
  void register_criterion(Criterion criterion) {
    if constexpr (requires { ModuleOf<Criterion>::pointer(criterion); })
      ModuleOf<Criterion>::pointer(criterion)->to(device());
    criterion_ = [criterion](const torch::Tensor& output, const torch::Tensor& target) mutable {
      return torch::Tensor(criterion(output, target));
    };
  }
  /// Keep more in the checkpoints: a ShardedState, a sampler, a Stateful. It must outlive the
  /// operator.
  template <class State>
  void register_state(State& state) {
    collect_state(state_, state);
  }
  /// Compute under Autocast in this type (none: bfloat16 on CPUs, float16 on GPUs), and scale the
  /// losses of float16, in the default train_batch() and validate_batch() (RaySGD's use_fp16).
  void use_mixed_precision(std::optional<torch::Dtype> dtype = {});

  // ---- what functions of the operator's own use

  /// Return the Autocast of use_mixed_precision(); one that does nothing without it.
  Autocast autocast() const;
  /// The scaler of use_mixed_precision(); off without it.
  GradScaler& scaler() { return *scaler_; }
  enum class Part { Forward, Gradients, Apply };
  /// Measure the time until the result is destroyed as this part of the batch, if the driver asked
  /// for a profile; on a GPU with what it computes until then.
  class Timed {
   public:
    Timed(OperatorBase& of, Part part);
    ~Timed();
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

   private:
    static double now();
    double* sum_;  // null: no profile
    double begun_ = 0;
  };
  Timed timed(Part part) { return Timed(*this, part); }
  /// Count a batch as trained, and step the schedules of SchedulerStep::Batch. For a train_epoch()
  /// of your own; the default one calls it after each train_batch().
  void batch_done();

  // ---- of TrainingOperator

  /// Throw unless there are one model of one tensor, one optimizer and one criterion.
  void check_defaults_fit(const char* function) const;
  torch::Tensor output_of(const torch::Tensor& input) { return forward_(input); }
  torch::Tensor loss_of(const torch::Tensor& output, const torch::Tensor& target) {
    return criterion_(output, target);
  }
  /// Make the gradients of `loss`, and step the only optimizer.
  void apply(const torch::Tensor& loss);
  [[noreturn]] static void refuse_batches(const char* function);

  virtual Dict train_pass(std::optional<std::int64_t> num_steps, BatchInfo info) = 0;
  virtual Dict validate_pass(std::optional<std::int64_t> num_steps, BatchInfo info) = 0;
  virtual bool has_train_data() const = 0;
  virtual bool has_validation_data() const = 0;

 private:
  class Progress;
  struct Schedule {
    std::unique_ptr<LrSchedule> schedule;
    SchedulerStep step;
    bool plateau;
  };

  template <class M>
  void keep_model(const M& model) {
    collect_state(state_, model);
    auto pointer = ModuleOf<M>::pointer(model);
    models_.push_back(pointer);
    // Asks the module: what prepare_model() has returned takes any arguments until it is called.
    if constexpr (requires(torch::Tensor input) {
                    { pointer->forward(input) } -> std::convertible_to<torch::Tensor>;
                  }) {
      if constexpr (requires { model.no_sync(); })
        forward_ = [model](const torch::Tensor& input) { return torch::Tensor(model(input)); };
      else
        forward_ = [pointer](const torch::Tensor& input) { return pointer->forward(input); };
    }
  }

  void serve_functions();
  Value on_train(const Config& argument);
  Value on_validate(const Config& argument);
  Value on_load(const std::string& path);
  static std::optional<std::int64_t> steps_of(const Config& argument);
  void add_profile(Dict& metrics) const;
  Value guarded_pass(const std::function<Value()>& pass);
  List step_manually(const Value& metric);
  void step_schedules(SchedulerStep step);
  std::string commit(const Dict& metrics);
  void restore(const Checkpoint& checkpoint);

  StateRefs state_;  // of all that is registered
  std::vector<std::shared_ptr<torch::nn::Module>> models_;
  std::vector<std::unique_ptr<torch::optim::Optimizer>> optimizers_;
  std::vector<Schedule> schedules_;
  std::function<torch::Tensor(const torch::Tensor&)> forward_;  // of the newest model
  std::function<torch::Tensor(const torch::Tensor&, const torch::Tensor&)> criterion_;
  std::unique_ptr<GradScaler> scaler_;
  AutocastOptions precision_;
  bool mixed_ = false;

  std::int64_t epoch_ = 0, global_step_ = 0;
  std::int64_t passes_ = 0;  // trained; what the driver counts
  List results_;             // of the newest one, by rank
  double trained_s_ = 0;
  std::optional<std::vector<double>> profile_;  // by Part, seconds
  std::exception_ptr failure_;                  // of a pass
  std::unique_ptr<Progress> progress_;
};

template <class Batch>
struct ExampleOf : std::false_type {};
template <>
struct ExampleOf<torch::data::Example<>> : std::true_type {};

}  // namespace detail

/// The worker's side. Derive from it, override setup(), and what else is to be different. Batch:
/// what the loaders give, torch::data::Example<> (tensors `data` and `target`), TorchBatch, or any
/// other type that can be copied.
template <class Batch = torch::data::Example<>>
class TrainingOperator : public detail::OperatorBase {
 public:
  using Batches = PassBatches<Batch>;

  /// Train one pass, and return its metrics: numbers, of which num_samples weights this rank's
  /// among those of all ranks. By default, train_batch() of each batch, and their means, weighted
  /// by num_samples; with num_samples, batch_count, and the last value of each.
  virtual Dict train_epoch(Batches& batches, const BatchInfo& info) {
    return over(batches, info, true, [this](Batch& batch, const BatchInfo& here) {
      Dict metrics = train_batch(batch, here);
      batch_done();
      return metrics;
    });
  }
  /// Train one batch, and return its metrics. By default, of an Example, with one model, optimizer
  /// and criterion: {"train_loss", "num_samples"}.
  virtual Dict train_batch(Batch& batch, const BatchInfo& /*info*/) {
    if constexpr (detail::ExampleOf<Batch>::value) {
      check_defaults_fit("train_batch");
      torch::Tensor loss;
      {
        const auto time = timed(Part::Forward);
        const Autocast cast = autocast();
        loss = loss_of(output_of(batch.data), batch.target);
      }
      apply(loss);
      return {{"train_loss", loss.template item<double>()}, {"num_samples", batch.target.size(0)}};
    } else {
      refuse_batches("train_batch");
    }
  }
  /// Validate on one pass over the data, without gradients, and return the metrics. By default,
  /// validate_batch() of each batch, and their means.
  virtual Dict validate(Batches& batches, const BatchInfo& info) {
    return over(batches, info, false, [this](Batch& batch, const BatchInfo& here) {
      return validate_batch(batch, here);
    });
  }
  /// Validate one batch. By default, of an Example: val_loss, num_samples, and val_accuracy if the
  /// model gives a score for each class ([rows, classes], with whole numbers [rows] as targets).
  virtual Dict validate_batch(Batch& batch, const BatchInfo& /*info*/) {
    if constexpr (detail::ExampleOf<Batch>::value) {
      check_defaults_fit("validate_batch");
      const Autocast cast = autocast();
      const torch::Tensor output = output_of(batch.data);
      const torch::Tensor& target = batch.target;
      Dict metrics{{"val_loss", loss_of(output, target).template item<double>()},
                   {"num_samples", target.size(0)}};
      if (output.dim() == 2 && target.dim() == 1 && !target.is_floating_point())
        metrics["val_accuracy"] =
            output.argmax(1).eq(target).to(torch::kFloat64).mean().template item<double>();
      return metrics;
    } else {
      refuse_batches("validate_batch");
    }
  }

 protected:
  /// What is trained and validated on: what prepare_data_loader() has returned, any other range of
  /// batches that can be looped over again and again, or a function that returns a range for each
  /// pass: [this] { return shard_.iter_torch_batches({.batch_size = 64}); }. All ranks need equally
  /// many batches. A loader with set_epoch() is told the pass.
  template <class Train>
  void register_data(Train train) {
    train_ = opener(std::move(train));
  }
  template <class Train, class Validation>
  void register_data(Train train, Validation validation) {
    train_ = opener(std::move(train));
    validation_ = opener(std::move(validation));
  }

  Dict train_pass(std::optional<std::int64_t> num_steps, BatchInfo info) final {
    Batches batches(train_(epoch()), num_steps);
    return train_epoch(batches, info);
  }
  Dict validate_pass(std::optional<std::int64_t> num_steps, BatchInfo info) final {
    Batches batches(validation_(0), num_steps);
    const torch::NoGradGuard no_grad;
    return validate(batches, info);
  }

 private:
  using Next = typename Batches::Next;
  using Opener = std::function<Next(std::int64_t epoch)>;

  template <class F>
  static Dict over(Batches& batches, BatchInfo info, bool last, const F& f) {
    detail::PassMeans means;
    for (Batch& batch : batches) {
      means.add(f(batch, info));
      ++info.batch_idx;
      if (last) ++info.global_step;
    }
    return means.summary(last);
  }

  /// Return what begins a pass over `data`, and gives its batches one by one.
  template <class Data>
  static Opener opener(Data data) {
    auto kept = std::make_shared<Data>(std::move(data));
    return [kept](std::int64_t epoch) -> Next {
      if constexpr (std::is_invocable_v<Data&>) {
        using Range = std::decay_t<decltype((*kept)())>;
        return next_of(std::make_shared<Range>((*kept)()));
      } else {
        if constexpr (requires { kept->set_epoch(static_cast<std::uint64_t>(epoch)); })
          kept->set_epoch(static_cast<std::uint64_t>(epoch));
        return next_of(kept);
      }
    };
  }
  template <class Range>
  static Next next_of(std::shared_ptr<Range> range) {
    using Iterator = decltype(std::begin(*range));
    using End = decltype(std::end(*range));
    struct At {
      std::shared_ptr<Range> range;
      Iterator iterator;
      End end;
      bool begun = false, done = false;
    };
    // Makes no copy of the iterators, which may be those of the only pass.
    auto at = std::shared_ptr<At>(new At{range, std::begin(*range), std::end(*range)});
    return [at]() -> std::optional<Batch> {
      if (at->done) return std::nullopt;
      if (std::exchange(at->begun, true)) ++at->iterator;
      at->done = at->iterator == at->end;
      if (at->done) return std::nullopt;
      return Batch(*at->iterator);
    };
  }

  bool has_train_data() const final { return train_ != nullptr; }
  bool has_validation_data() const final { return validation_ != nullptr; }

  Opener train_, validation_;
};

/// The main() of workers whose driver is another program: `return
/// train::run_operator<Digits>(argc, argv);`. Returns the exit code, as train::run() does.
template <class Operator>
int run_operator(int argc, char** argv) {
  return train::run(argc, argv, [](const Config& config) { Operator().serve_calls(config); });
}

namespace detail {
/// Have a spec that says nothing of failures survive three, as RaySGD did.
Dict with_failures(Dict spec);
}  // namespace detail

/// Start this program itself as the workers, and return what steers them. Call it first thing in
/// main(): in a worker it does not return. `spec` has the keys of a job's YAML, without `command`.
/// Where it says nothing of failures, the run survives three of them.
template <class Operator>
OperatorTrainer operate(int argc, char** argv, Dict spec = {}, TrainerOptions options = {}) {
  return OperatorTrainer(Trainer(
      argc, argv, detail::with_failures(std::move(spec)),
      [](const Config& config) { Operator().serve_calls(config); }, std::move(options)));
}

}  // namespace train
