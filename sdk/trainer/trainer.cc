#include <train/train.h>
#include <train/trainer.h>

#include <cstdlib>
#include <functional>
#include <utility>

#include "sdk/trainer/job_words.h"
#include "sdk/trainer/trainer_impl.h"

namespace train {

Trainer::Trainer(std::filesystem::path job, Dict overrides, TrainerOptions options)
    : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->words = {job.string()};
  const std::vector<std::string> set = trainer::set_words(overrides);
  impl_->words.insert(impl_->words.end(), set.begin(), set.end());
}

Trainer::Trainer(Dict spec, TrainerOptions options) : impl_(std::make_unique<Impl>()) {
  impl_->options = std::move(options);
  impl_->words = trainer::set_words(spec);
}

Trainer::Trainer(int argc, char** argv, Dict spec, const std::function<void(const Config&)>& loop,
                 TrainerOptions options)
    : impl_(std::make_unique<Impl>()) {
  if (trainer::in_worker()) std::exit(train::run(argc, argv, loop));
  impl_->options = std::move(options);
  impl_->words = trainer::set_words(trainer::with_own_command(std::move(spec), argc, argv));
}

Trainer::Trainer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Trainer::~Trainer() {
  if (impl_ == nullptr || impl_->process == nullptr || impl_->over) return;
  if (!impl_->run_over()) {
    stop();
    impl_->finish("the driver has left its loop before the run's end");
    return;
  }
  try {
    impl_->conclude();
  } catch (const Failure&) {  // the run has left nothing that can be read
  }
}

Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;

void Trainer::add_callback(std::shared_ptr<Callback> callback) {
  impl_->listeners.push_back({std::move(callback)});
}

void Trainer::start(const StartOptions& options) { impl_->begin(options); }

std::map<int, Value> Trainer::call(const std::string& name, const Value& argument,
                                   const CallOptions& options) {
  return impl_->call(name, argument, options);
}

void Trainer::catch_up() { impl_->catch_up(); }

std::filesystem::path Trainer::folder() const { return impl_->folder(); }

RunResult Trainer::fit() {
  impl_->begin_unless_started();
  while (impl_->next()) {
  }
  return impl_->ended();
}

Rounds Trainer::iterate(const StartOptions& options) {
  impl_->begin_unless_started(options);
  return Rounds(*impl_);
}

void Trainer::stop() { impl_->stop(); }

std::optional<RunResult> Trainer::result(bool force) { return impl_->result(force); }

std::optional<Round> Rounds::next() {
  if (auto round = impl_->next()) return round;
  impl_->check_equal();
  return std::nullopt;
}

Rounds::Iterator Rounds::begin() {
  Iterator first;
  first.rounds_ = this;
  first.round_ = next();
  return first;
}

}  // namespace train
