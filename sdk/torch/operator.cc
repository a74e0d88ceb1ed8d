#include <train/torch_operator.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "sdk/client/progress.h"
#include "sdk/torch/failure.h"

namespace train::detail {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kWait = std::chrono::hours(1);  // for the driver's next call; then again
constexpr const char* kSamples = "num_samples";
// Of one rank, and of all together: what train-run takes, with a margin.
constexpr std::size_t kAnswerBytesMax = 512u << 10, kAnswersBytesMax = 7u << 20;

double seconds_of(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  sdk::raise(Error{Errc::InvalidArgument, what, hint});
}

/// What a call that is refused answers: it changes nothing, so that the workers can go on.
Value refusal(const std::string& why) {
  return Dict{{"refused", why}, {"kind", "invalid_argument"}};
}

}  // namespace

void PassMeans::add(const Dict& metrics) {
  const auto given = metrics.find(kSamples);
  const std::int64_t samples = given == metrics.end() ? 1 : given->second.as<std::int64_t>();
  if (samples < 0) refuse("num_samples of a batch is negative", "give the number of its rows");
  samples_ += samples;
  ++batches_;
  for (const auto& [name, value] : metrics) {
    if (name == kSamples) continue;
    if (!value.is_number())
      refuse("the metric '" + name + "' of a batch is no number",
             "leave it out, or return it from a train_epoch() or validate() of your own");
    Sum& sum = sums_[name];
    sum.last = value.as<double>();
    sum.weight += static_cast<double>(samples);
    if (samples > 0) sum.total += static_cast<double>(samples) * sum.last;
  }
}

Dict PassMeans::summary(bool last) const {
  Dict result{{kSamples, samples_}, {"batch_count", batches_}};
  for (const auto& [name, sum] : sums_) {
    if (sum.weight > 0) result[name] = sum.total / sum.weight;
    if (last) result["last_" + name] = sum.last;
  }
  return result;
}

/// What a checkpoint holds besides tensors, optimizers and schedules.
class OperatorBase::Progress final : public Stateful {
 public:
  explicit Progress(OperatorBase& of) : of_(&of) {}
  std::string kind() const override { return "TrainingOperator"; }
  Dict state() const override {
    return {
        {"epoch", of_->epoch_},     {"global_step", of_->global_step_}, {"passes", of_->passes_},
        {"results", of_->results_}, {"time_total_s", of_->trained_s_},  {"own", of_->state()}};
  }
  void load_state(const Dict& state) override {
    const Config from(state);
    const auto count = [&](const char* name) {
      const auto value = from.get<std::int64_t>(name);
      if (value < 0) sdk::raise(Error{Errc::Corrupt, std::string("\"") + name + "\" is negative"});
      return value;
    };
    const std::int64_t epoch = count("epoch"), step = count("global_step"),
                       passes = count("passes");
    const auto results = from.get<List>("results");
    const auto seconds = from.get<double>("time_total_s");
    of_->load_state(from.get<Dict>("own"));
    of_->epoch_ = epoch;
    of_->global_step_ = step;
    of_->passes_ = passes;
    of_->results_ = results;
    of_->trained_s_ = seconds;
  }

 private:
  OperatorBase* of_;
};

OperatorBase::OperatorBase()
    : scaler_(std::make_unique<GradScaler>(GradScalerOptions{.enabled = false})),
      progress_(std::make_unique<Progress>(*this)) {}
OperatorBase::~OperatorBase() = default;

// ---- what setup() calls

LrSchedule& OperatorBase::register_schedule(torch::optim::Optimizer& optimizer, LrCurve curve,
                                            SchedulerStep step) {
  auto schedule = std::make_unique<LrSchedule>(optimizer, std::move(curve));
  schedules_.push_back({std::move(schedule), step, false});
  return *schedules_.back().schedule;
}

LrSchedule& OperatorBase::register_schedule(torch::optim::Optimizer& optimizer,
                                            const PlateauOptions& plateau) {
  auto schedule = std::make_unique<LrSchedule>(optimizer, plateau);
  schedules_.push_back({std::move(schedule), SchedulerStep::Manual, true});
  return *schedules_.back().schedule;
}

void OperatorBase::use_mixed_precision(std::optional<torch::Dtype> dtype) {
  const bool on_gpu = device().is_cuda();
  precision_.dtype = dtype.value_or(on_gpu ? torch::kHalf : torch::kBFloat16);
  mixed_ = true;
  scaler_ = std::make_unique<GradScaler>(GradScalerOptions{.dtype = *precision_.dtype});
}

// ---- what functions of the operator's own use

Autocast OperatorBase::autocast() const {
  AutocastOptions options = precision_;
  options.enabled = mixed_;
  return Autocast(options);
}

OperatorBase::Timed::Timed(OperatorBase& of, Part part)
    : sum_(of.profile_ ? &(*of.profile_)[static_cast<std::size_t>(part)] : nullptr) {
  if (sum_ != nullptr) begun_ = now();
}

OperatorBase::Timed::~Timed() {
  if (sum_ == nullptr) return;
  try {
    *sum_ += now() - begun_;
  } catch (...) {  // an error of the GPU comes again at its next use
  }
}

double OperatorBase::Timed::now() {
  if (device().is_cuda()) torch::cuda::synchronize(device().index());
  return seconds_of(Clock::now().time_since_epoch());
}

void OperatorBase::batch_done() {
  ++global_step_;
  step_schedules(SchedulerStep::Batch);
}

void OperatorBase::check_defaults_fit(const char* function) const {
  if (models_.size() == 1 && optimizers_.size() == 1 && forward_ && criterion_) return;
  refuse(std::string("the default ") + function +
             "() is for one model of one tensor, one optimizer and one criterion",
         std::string("register these, or override ") + function + "()");
}

void OperatorBase::refuse_batches(const char* function) {
  refuse(std::string("the default ") + function + "() is for batches that are Examples",
         std::string("override ") + function + "()");
}

void OperatorBase::apply(const torch::Tensor& loss) {
  torch::optim::Optimizer& optimizer = *optimizers_.front();
  optimizer.zero_grad();
  {
    const auto time = timed(Part::Gradients);
    scaler_->scale(loss).backward();
  }
  const auto time = timed(Part::Apply);
  scaler_->step(optimizer);
  scaler_->update();
}

// ---- what the driver calls for

void OperatorBase::serve_calls(const Config& config) {
  setup(config);
  for (Schedule& one : schedules_) collect_state(state_, *one.schedule);
  collect_state(state_, *scaler_);
  collect_state(state_, *progress_);
  const auto checkpoint = get_checkpoint();
  if (checkpoint) restore(*checkpoint);
  serve_functions();
  // A pass that fails is done again from here. (Its report() runs calls that have come.)
  if (!checkpoint) commit({{"epoch", epoch_}});
  for (;;) {
    if (failure_) std::rethrow_exception(failure_);
    poll(kWait);
  }
}

void OperatorBase::serve_functions() {
  serve("operator.passes", [this](const Value&) { return Value(passes_); });
  serve("operator.train",
        [this](const Value& argument) { return on_train(Config(argument.as<Dict>())); });
  serve("operator.validate",
        [this](const Value& argument) { return on_validate(Config(argument.as<Dict>())); });
  serve("operator.save", [this](const Value&) { return Value(commit({{"epoch", epoch_}})); });
  serve("operator.load", [this](const Value& path) { return on_load(path.as<std::string>()); });
  serve("operator.update_scheduler", [this](const Value& metric) {
    List rates = step_manually(metric);
    commit({{"epoch", epoch_}});
    return Value(std::move(rates));
  });
}

/// Do a pass. An exception ends the worker once its caller knows it: the other ranks may wait for
/// this one in a collective call, and the models are no longer the same.
Value OperatorBase::guarded_pass(const std::function<Value()>& pass) {
  if (failure_) std::rethrow_exception(failure_);  // called before this worker has ended by it
  try {
    Value answer = pass();
    const auto ranks = static_cast<std::size_t>(get_context().world_size());
    const std::size_t size = to_json(answer).size();
    if (size > std::min(kAnswerBytesMax, kAnswersBytesMax / ranks))
      refuse("the metrics have " + std::to_string(size) + " bytes of JSON", "return less");
    return answer;
  } catch (const Stopped&) {
    throw;
  } catch (...) {
    failure_ = std::current_exception();
    throw;
  }
}

Value OperatorBase::on_train(const Config& argument) {
  const auto number = argument.get<std::int64_t>("pass");
  if (number < passes_)
    return Dict{
        {"again", get_context().world_rank() == 0 ? results_ : List()}};  // an answer was lost
  if (number > passes_)
    return refusal("the workers have restored pass " + std::to_string(passes_) + ", and pass " +
                   std::to_string(number) + " is to follow: a checkpoint was not kept");
  if (!has_train_data()) return refusal("setup() has registered no data to train on");
  return guarded_pass([&]() -> Value {
    const sdk::InPhase training(Phase::Step);
    const Clock::time_point begun = Clock::now();
    const bool profile = argument.get<bool>("profile", false);
    profile_.reset();
    if (profile) profile_ = std::vector<double>(3, 0.0);
    for (const auto& model : models_) model->train();
    const BatchInfo info{
        .epoch = epoch_, .global_step = global_step_, .info = argument.get<Dict>("info", {})};
    Dict metrics = train_pass(steps_of(argument), info);
    step_schedules(SchedulerStep::Epoch);
    ++passes_;
    ++epoch_;
    const double took = seconds_of(Clock::now() - begun);
    trained_s_ += took;
    metrics["epoch"] = epoch_;
    metrics["time_this_iter_s"] = took;
    metrics["time_total_s"] = trained_s_;
    if (profile) add_profile(metrics);
    profile_.reset();
    results_ = all_gather(metrics);
    commit(metrics);
    return Dict{{"metrics", metrics}};
  });
}

Value OperatorBase::on_validate(const Config& argument) {
  if (!has_validation_data()) return refusal("setup() has registered no data to validate on");
  return guarded_pass([&]() -> Value {
    const sdk::InPhase validating(Phase::Validate);
    for (const auto& model : models_) model->eval();
    const BatchInfo info{
        .epoch = epoch_, .global_step = global_step_, .info = argument.get<Dict>("info", {})};
    Dict metrics = validate_pass(steps_of(argument), info);
    metrics.emplace("epoch", epoch_);
    return Dict{{"metrics", metrics}};
  });
}

std::optional<std::int64_t> OperatorBase::steps_of(const Config& argument) {
  if (!argument.contains("num_steps")) return std::nullopt;
  return argument.get<std::int64_t>("num_steps");
}

Value OperatorBase::on_load(const std::string& path) {
  std::optional<Checkpoint> checkpoint;
  std::string why;
  try {
    checkpoint = Checkpoint::open(path);
  } catch (const Failure& failure) {
    why = failure.what();
  }
  for (const Value& missing : all_gather(why))
    if (missing != Value("")) return refusal(missing.as<std::string>());
  return guarded_pass([&]() -> Value {
    restore(*checkpoint);
    commit({{"epoch", epoch_}});
    return Dict{{"metrics", Dict{{"passes", passes_}}}};
  });
}

void OperatorBase::add_profile(Dict& metrics) const {
  constexpr const char* kNames[] = {"mean_fwd_s", "mean_grad_s", "mean_apply_s"};
  const auto batches = metrics.find("batch_count");
  const double count = batches == metrics.end() ? 1 : std::max(1.0, batches->second.as<double>());
  for (std::size_t part = 0; part < profile_->size(); ++part)
    metrics[kNames[part]] = (*profile_)[part] / count;
}

List OperatorBase::step_manually(const Value& metric) {
  for (Schedule& one : schedules_) {
    if (one.plateau && metric.is_null())
      refuse("a schedule of PlateauOptions needs a metric", "call update_scheduler(metric)");
  }
  for (Schedule& one : schedules_) {
    if (one.step != SchedulerStep::Manual) continue;
    if (one.plateau)
      one.schedule->step(metric.as<double>());
    else
      one.schedule->step();
  }
  List rates;
  for (const auto& optimizer : optimizers_)
    for (const auto& group : optimizer->param_groups())
      rates.emplace_back(group.options().get_lr());
  return rates;
}

void OperatorBase::step_schedules(SchedulerStep step) {
  for (Schedule& one : schedules_)
    if (one.step == step) one.schedule->step();
}

/// Commit a checkpoint of all that is registered, and return its name.
std::string OperatorBase::commit(const Dict& metrics) {
  if (failure_) std::rethrow_exception(failure_);
  report(metrics, Checkpoint::from_state(state_), {.upload = Upload::Sync});
  const auto kept = wait_for_checkpoint();
  if (!kept)
    sdk::raise(Error{Errc::Unavailable, "the checkpoint was not kept", "the run's log says why"});
  return kept->filename().string();
}

void OperatorBase::restore(const Checkpoint& checkpoint) { checkpoint.load(state_); }

Dict with_failures(Dict spec) {
  const auto run_config = spec.find("run_config");
  const bool says = spec.contains("run_config.failure_config") ||
                    (run_config != spec.end() && run_config->second.is_dict() &&
                     run_config->second.as<Dict>().contains("failure_config"));
  if (!says) spec.try_emplace("run_config.failure_config.max_failures", 3);
  return spec;
}

}  // namespace train::detail
