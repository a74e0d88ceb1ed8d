#include <fmt/format.h>
#include <train/train.h>
#include <train/warm_trainer.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <string_view>
#include <utility>

#include "sdk/trainer/job_words.h"
#include "sdk/trainer/resolved_spec.h"
#include "sdk/trainer/trainer_impl.h"
#include "sdk/trainer/warm_group.h"

namespace train {
namespace {

namespace fs = std::filesystem;

/// Return the path if it is one of this machine.
const std::string& local(const std::string& path, std::string_view what) {
  const auto end = std::find_if_not(path.begin(), path.end(), [](unsigned char c) {
    return std::islower(c) || std::isdigit(c) || c == '+' || c == '-' || c == '.';
  });
  if (std::string_view(end, path.end()).starts_with("://"))
    throw Failure("invalid_argument",
                  fmt::format("{} is '{}': the runs of a WarmTrainer are numbered in a folder, and "
                              "cannot be in an object store (give a logdir)",
                              what, path));
  return path;
}

/// Make a folder that is called after the time, and return its path.
fs::path new_folder(const fs::path& parent) {
  const std::time_t now = std::time(nullptr);
  std::tm local_time{};
  ::localtime_r(&now, &local_time);
  char stem[64] = {};
  std::strftime(stem, sizeof stem, "warm_%Y-%m-%d_%H-%M-%S", &local_time);
  std::error_code ec;
  fs::create_directories(parent, ec);
  fs::path path = parent / stem;
  for (int number = 2; !fs::create_directory(path, ec) && !ec; ++number)
    path = parent / fmt::format("{}_{}", stem, number);  // another program began in this second
  if (ec) throw Failure("io", fmt::format("making {}: {}", path.string(), ec.message()));
  return path;
}

/// Return the number in the name of a run's folder; 0 if it is none.
int number_of_run(std::string_view name) {
  constexpr std::string_view kAlone = "_solo-", kRun = "run_";
  if (name.starts_with(kAlone)) name.remove_prefix(kAlone.size());
  if (!name.starts_with(kRun) || name.size() < kRun.size() + 3) return 0;
  name.remove_prefix(kRun.size());
  int number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? std::max(number, 0) : 0;
}

/// Return the next run's number: the least that is larger than those of all runs.
int number_after(const fs::path& logdir, int number) {
  std::error_code ec;
  for (const fs::directory_entry& entry : fs::directory_iterator(logdir, ec))
    number = std::max(number, number_of_run(entry.path().filename().string()));
  return number + 1;
}

}  // namespace

struct WarmTrainer::Impl {
  Impl(std::vector<std::string> words_of_job, WarmTrainerOptions given);
  ~Impl();
  void shutdown(std::chrono::milliseconds patience);
  void conclude_newest();
  fs::path place_of_runs();
  std::vector<std::string> words_of_run(const std::optional<Dict>& config,
                                        const WarmRunOptions& run_options);

  const std::vector<std::string> words;  // the job: behind "train-run run"
  const WarmTrainerOptions options;
  const std::shared_ptr<trainer::WarmGroup> group = std::make_shared<trainer::WarmGroup>();
  std::vector<std::shared_ptr<Callback>> callbacks;
  fs::path logdir;  // empty: not known yet
  int number = 0;   // of the newest run
};

WarmTrainer::Impl::Impl(std::vector<std::string> words_of_job, WarmTrainerOptions given)
    : words(std::move(words_of_job)), options(std::move(given)) {}

WarmTrainer::Impl::~Impl() {
  try {
    shutdown(std::chrono::seconds(5));
  } catch (const Failure&) {  // a run that was stopped has left nothing that can be read
    group->end(std::chrono::seconds(5));
  }
}

void WarmTrainer::Impl::shutdown(std::chrono::milliseconds patience) {
  if (Trainer::Impl* newest = group->newest_run()) newest->conclude();
  group->end(patience);
}

void WarmTrainer::Impl::conclude_newest() {
  group->check_active();
  Trainer::Impl* newest = group->newest_run();
  if (newest == nullptr) return;
  if (newest->process != nullptr && !newest->over && !newest->run_over())
    throw Failure("invalid_argument",
                  fmt::format("run_{:03} of this WarmTrainer has not ended: take its rounds to "
                              "their end, or call its result(true)",
                              number));
  newest->conclude();
  group->forget(newest);
}

/// Return the folder of the runs. train-run says what the spec has about it.
fs::path WarmTrainer::Impl::place_of_runs() {
  if (!logdir.empty()) return logdir;
  std::vector<std::string> command{trainer::program_of(options.trainer), "run"};
  command.insert(command.end(), words.begin(), words.end());
  trainer::add_options(command, options.trainer.arguments);
  const std::string spec = trainer::resolved_spec(std::move(command));
  if (trainer::value_of(spec, "scaling_config", "num_workers").text == "0") group->keep_none();
  if (!options.logdir.empty())
    return logdir = fs::absolute(local(options.logdir.string(), "logdir"));
  const std::string storage = trainer::value_of(spec, "run_config", "storage_path").text;
  const fs::path parent = trainer::unescaped(local(storage, "run_config.storage_path"));
  const trainer::SpecValue name = trainer::value_of(spec, "", "name");
  return logdir = name.given ? parent / name.text : new_folder(parent);
}

std::vector<std::string> WarmTrainer::Impl::words_of_run(const std::optional<Dict>& config,
                                                         const WarmRunOptions& run_options) {
  number = number_after(place_of_runs(), number);
  const std::string name = fmt::format("run_{:03}", number);
  Dict values{{"name", name},
              {"run_config.name", name},
              {"run_config.storage_path", trainer::escaped(logdir.string())}};
  if (!run_options.resume_from_checkpoint.empty())
    values["resume_from_checkpoint"] = trainer::escaped(run_options.resume_from_checkpoint);
  std::vector<std::string> said = trainer::set_words(values);
  if (!config) return said;
  // null: train-run would lay the config over the file's.
  for (const Value& value : {Value(), Value(*config)})
    trainer::add_options(said, trainer::set_words({{"train_loop_config", value}}));
  return said;
}

WarmTrainer::WarmTrainer(fs::path job, Dict overrides, WarmTrainerOptions options) {
  std::vector<std::string> words{job.string()};
  trainer::add_options(words, trainer::set_words(overrides));
  impl_ = std::make_unique<Impl>(std::move(words), std::move(options));
}

WarmTrainer::WarmTrainer(Dict spec, WarmTrainerOptions options)
    : impl_(std::make_unique<Impl>(trainer::set_words(spec), std::move(options))) {}

WarmTrainer::WarmTrainer(int argc, char** argv, Dict spec,
                         const std::function<void(const Config&)>& loop,
                         WarmTrainerOptions options) {
  if (trainer::in_worker()) std::exit(train::run(argc, argv, loop));
  impl_ = std::make_unique<Impl>(
      trainer::set_words(trainer::with_own_command(std::move(spec), argc, argv)),
      std::move(options));
}

WarmTrainer::~WarmTrainer() = default;
WarmTrainer::WarmTrainer(WarmTrainer&&) noexcept = default;
WarmTrainer& WarmTrainer::operator=(WarmTrainer&&) noexcept = default;

void WarmTrainer::add_callback(std::shared_ptr<Callback> callback) {
  impl_->callbacks.push_back(std::move(callback));
}

Trainer WarmTrainer::next(const std::optional<Dict>& config, const WarmRunOptions& options) {
  impl_->conclude_newest();
  auto run = std::make_unique<Trainer::Impl>();
  run->options = impl_->options.trainer;
  run->words = impl_->words;
  run->more_words = impl_->words_of_run(config, options);
  run->group = impl_->group;
  impl_->group->made(run.get());
  Trainer trainer(std::move(run));
  for (const auto& callback : impl_->callbacks) trainer.add_callback(callback);
  for (const auto& callback : options.callbacks) trainer.add_callback(callback);
  return trainer;
}

RunResult WarmTrainer::run(const std::optional<Dict>& config, const WarmRunOptions& options) {
  return next(config, options).fit();
}

fs::path WarmTrainer::logdir() { return impl_->place_of_runs(); }

std::optional<fs::path> WarmTrainer::latest_run_dir() const {
  const fs::path newest = impl_->group->latest_run_dir();
  return newest.empty() ? std::nullopt : std::optional(newest);
}

void WarmTrainer::shutdown(std::chrono::milliseconds patience) { impl_->shutdown(patience); }

}  // namespace train
