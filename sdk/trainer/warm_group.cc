#include "sdk/trainer/warm_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sdk/trainer/trainer_impl.h"

namespace train::trainer {

void WarmGroup::check_active() const {
  if (!active_) throw Failure("unavailable", "this WarmTrainer is not active: it was shut down");
}

std::vector<std::string> WarmGroup::words() const {
  if (!keeps_workers_) return {};
  if (holder_ == nullptr) return {"--keep-workers"};
  return {"--keep-workers", "--workers-of", run_.string()};
}

void WarmGroup::let_go() {
  if (holder_ == nullptr) return;
  wait_for_leaving();
  holder_->leave();
  leaving_ = std::move(holder_);
}

void WarmGroup::hold(std::shared_ptr<DriverProcess> process, const std::filesystem::path& run) {
  if (!active_) {
    process->leave();
    process->wait();
    return;
  }
  let_go();
  wait_for_leaving();
  holder_ = std::move(process);
  run_ = run;
}

void WarmGroup::end(std::chrono::milliseconds patience) {
  active_ = false;
  wait_for_leaving();
  if (holder_ == nullptr) return;
  constexpr std::chrono::milliseconds kPatienceMax = std::chrono::minutes(10);
  const auto milliseconds =
      std::clamp(patience, std::chrono::milliseconds(0), kPatienceMax).count();
  holder_->send(fmt::format("{{\"command\": \"release\", \"patience_ms\": {}}}\n", milliseconds));
  holder_->wait();
  holder_.reset();
}

void WarmGroup::forget(Trainer::Impl* run) {
  if (newest_run_ != run) return;
  latest_run_dir_ = latest_run_dir();
  newest_run_ = nullptr;
}

std::filesystem::path WarmGroup::latest_run_dir() const {
  const auto newest = newest_run_ == nullptr ? std::filesystem::path() : newest_run_->folder();
  return newest.empty() ? latest_run_dir_ : newest;
}

void WarmGroup::wait_for_leaving() {
  if (const auto leaving = std::exchange(leaving_, nullptr)) leaving->wait();
}

}  // namespace train::trainer
