#include <fmt/format.h>
#include <train/operator_trainer.h>

#include <system_error>
#include <utility>

#include "sdk/trainer/pass_metrics.h"

namespace train {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kSetupTimeMax = std::chrono::hours(1);  // until setup() has returned
constexpr milliseconds kCheckpointTimeMax = std::chrono::minutes(10);
constexpr int kRetries = 3;

/// Return rank 0's answer, which the others have given, too.
template <class T>
T first_answer(const std::string& call, const std::map<int, Value>& answers) {
  const auto first = answers.find(0);
  if (first == answers.end()) throw Failure("corrupt", call + ": rank 0 has not answered");
  return first->second.as<T>();
}

}  // namespace

OperatorTrainer::OperatorTrainer(Trainer trainer) : trainer_(std::move(trainer)) {
  trainer_.start();
}

std::map<int, Value> OperatorTrainer::call(const std::string& name, const Value& argument,
                                           const CallOptions& options) {
  std::map<int, Value> answers;
  try {
    answers = trainer_.call(name, argument, options);
  } catch (const Failure& why) {
    if (why.kind() == "unavailable") trainer_.result(true);  // throws why the run has ended
    throw;
  } catch (const CallFailed&) {
    trainer_.catch_up();
    throw;
  }
  trainer_.catch_up();
  return answers;
}

std::vector<Dict> OperatorTrainer::pass(const std::string& name, Dict argument,
                                        const PassOptions& options) {
  if (options.num_steps && *options.num_steps < 0)
    throw Failure("invalid_argument", name + ": num_steps is negative");
  if (options.num_steps) argument["num_steps"] = *options.num_steps;
  argument["info"] = options.info;
  const std::string call_name = "operator." + name;
  const auto answers =
      call(call_name, argument,
           {.timeout = options.timeout, .retries = options.max_retries, .ends_worker = true});
  return trainer::pass_metrics(name, answers);
}

std::vector<Dict> OperatorTrainer::train_by_rank(const PassOptions& options) {
  if (!passes_)
    passes_ = first_answer<std::int64_t>(
        "train", call("operator.passes", {}, {.timeout = kSetupTimeMax, .retries = kRetries}));
  auto ranks = pass("train", {{"pass", *passes_}, {"profile", options.profile}}, options);
  ++*passes_;
  return ranks;
}

Dict OperatorTrainer::train(const PassOptions& options) {
  return trainer::reduced_metrics(train_by_rank(options));
}

std::vector<Dict> OperatorTrainer::validate_by_rank(const PassOptions& options) {
  return pass("validate", {}, options);
}

Dict OperatorTrainer::validate(const PassOptions& options) {
  return trainer::reduced_metrics(validate_by_rank(options));
}

std::vector<double> OperatorTrainer::update_scheduler(std::optional<double> metric) {
  const Value argument = metric ? Value(*metric) : Value();
  return first_answer<std::vector<double>>(
      "update_scheduler",
      call("operator.update_scheduler", argument, {.timeout = kCheckpointTimeMax}));
}

std::vector<Value> OperatorTrainer::apply_all_operators(const std::string& name,
                                                        const Value& argument,
                                                        milliseconds timeout) {
  std::vector<Value> ranks;
  for (auto& [rank, answer] : call(name, argument, {.timeout = timeout})) ranks.push_back(answer);
  return ranks;
}

Checkpoint OperatorTrainer::get_model() {
  const auto name = first_answer<std::string>(
      "get_model", call("operator.save", {}, {.timeout = kCheckpointTimeMax, .retries = kRetries}));
  const std::filesystem::path folder = trainer_.folder() / "checkpoints" / name;
  std::error_code ec;
  if (folder.filename() != name || !std::filesystem::is_directory(folder, ec))
    throw Failure("unavailable",
                  fmt::format("the checkpoint {} cannot be read here: the run's storage is "
                              "elsewhere (train-run checkpoint get brings it)",
                              name));
  return Checkpoint::open(folder);
}

void OperatorTrainer::save(const std::filesystem::path& directory) {
  namespace fs = std::filesystem;
  std::error_code ec;
  const auto failed = [&](const std::string& doing) {
    return Failure("io", fmt::format("{}: {}", doing, ec.message()));
  };
  fs::path target = fs::absolute(directory).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();  // "digits/"
  if (fs::exists(fs::symlink_status(target, ec)))
    throw Failure(
        "invalid_argument",
        fmt::format("{} is there already: save() writes a new directory", target.string()));
  const fs::path source = get_model().as_directory();  // verified
  const fs::path partial = target.parent_path() / ("." + target.filename().string() + ".partial");
  if (!fs::create_directory(partial, ec)) {
    if (!ec) ec = std::make_error_code(std::errc::file_exists);
    throw failed(
        fmt::format("making {}, which is to become {}", partial.string(), target.string()));
  }
  fs::copy(source, partial, fs::copy_options::recursive, ec);
  if (!ec) fs::rename(partial, target, ec);
  if (!ec) return;
  const Failure why = failed(fmt::format("copying {} to {}", source.string(), target.string()));
  fs::remove_all(partial, ec);  // this call has made it
  throw why;
}

void OperatorTrainer::load(const std::filesystem::path& directory) {
  const std::string path = std::filesystem::absolute(directory).string();
  passes_.reset();  // asked for anew, should the answer be lost
  const auto answers =
      call("operator.load", path, {.timeout = kCheckpointTimeMax, .ends_worker = true});
  passes_ = trainer::pass_metrics("load", answers).front().at("passes").as<std::int64_t>();
}

RunResult OperatorTrainer::shutdown() {
  trainer_.stop();
  return trainer_.fit();
}

}  // namespace train
