#include "launcher/cluster/run/slurm_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "launcher/cluster/links/private_daemon.h"
#include "launcher/cluster/run/slurm_commands.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kStepEvery = milliseconds(200);
constexpr Duration kTimeEvery = seconds(1);
constexpr Duration kSameSignal = seconds(1);
constexpr Duration kFresh = seconds(30);  // what squeue has said
using WallDuration = std::chrono::system_clock::duration;
constexpr const char* kNoSlurm = "correct it, or add --no-slurm to run without Slurm's nodes";

bool has_srun() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/srun").c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

Result<std::optional<SlurmAllocation>> slurm_job_of(const JobSpec& spec,
                                                    const EnvironmentMap& environment) {
  if (spec.cluster.slurm == SlurmUse::Never) return std::optional<SlurmAllocation>();
  auto allocation = read_slurm_allocation(environment);
  if (!allocation) {
    Error error = allocation.error();
    error.hint = kNoSlurm;
    return error;
  }
  if (!*allocation && spec.cluster.slurm == SlurmUse::Required)
    return Error{Errc::Unavailable, "cluster.slurm is required, but this is no Slurm job",
                 "start train-run by sbatch or salloc"};
  return allocation;
}

bool starts_daemons(const JobSpec& spec, const SlurmAllocation& allocation) {
  if (spec.cluster.names_nodes()) return false;
  const bool only_here = allocation.on_node && allocation.nodes.size() == 1;
  return !only_here || has_srun();
}

Result<SlurmStep> start_daemons(const SlurmAllocation& allocation,
                                const EnvironmentMap& environment,
                                const std::function<void(const std::string&)>& say) {
  if (allocation.step_task)
    return Error{
        Errc::InvalidArgument,
        fmt::format("this is task {} of a Slurm step, and each of them would start the run",
                    *allocation.step_task),
        "start train-run once, in the batch script, without srun"};
  TRY(const std::string traind, find_traind());
  TRY(SlurmStep step, SlurmStep::start(allocation, traind, srun_environment(environment)));
  const auto come = step.wait_for_daemons(kSlurmStartLimit, say);
  if (come) return step;
  step.close();
  return come.error();
}

SlurmJob::SlurmJob(const Clock& clock, const SlurmAllocation& allocation, SlurmStep* step,
                   const JobSpec& spec, Handlers handlers)
    : clock_(clock),
      allocation_(allocation),
      step_(step),
      before_end_(spec.cluster.stop_before_end),
      stop_grace_(spec.run_config.failure_config.stop_grace),
      handlers_(std::move(handlers)) {}

void SlurmJob::begin(Scope& scope) {
  if (step_ != nullptr) scope.spawn("slurm step", watch_step());
  if (before_end_ > Duration{0}) scope.spawn("slurm time", watch_time());
}

// ---- signals

bool SlurmJob::takes(const NodeDraining& message) {
  if (step_ == nullptr || !message.reason.starts_with("SIG")) return false;
  handlers_.stop({StopKind::Terminate, message.reason});
  return true;
}

bool SlurmJob::is_repeated(const StopAsked& stop) {
  if (stop.kind != StopKind::Terminate) return false;
  const TimePoint now = clock_.now();
  const bool repeated = asked_ && now - *asked_ < kSameSignal;
  if (!repeated) asked_ = now;
  return repeated;
}

void SlurmJob::checkpoint_ended() {
  if (reported_.empty()) return;
  if (time_) time_->checkpoint_took(clock_.now() - reported_.front());
  reported_.pop_front();
}

// ---- the daemons

asio::awaitable<void> SlurmJob::watch_step() {
  while (!step_->ended()) {
    const auto woken = co_await pause_for(kStepEvery);
    if (!woken) co_return;
    for (const std::string& line : step_->look())
      if (!ending_ && !asked_) handlers_.warn(line);
  }
  if (!ending_ && !asked_)
    handlers_.lost({Errc::Unavailable,
                    "the Slurm step with this run's daemons has ended: " + *step_->ended(),
                    "see traind.log in the run's folder, and slurmd's log on the nodes"});
}

// ---- the time

Task<std::optional<Duration>> SlurmJob::time_left() {
  const std::function<Result<std::optional<Duration>>()> ask = [id = allocation_.job_id] {
    return ask_time_left(id);
  };
  auto asking = run_unjoined<std::optional<Duration>>(ask);
  co_return co_await std::move(asking);
}

// Look at the wall clock each second, since a suspended machine's steady clock stands still. Ask
// Slurm again when the time has come: somebody may have changed the job's limit.
asio::awaitable<void> SlurmJob::watch_time() {
  const TimePoint began = clock_.now();
  const auto at = [this](std::chrono::system_clock::time_point wall) {
    return clock_.now() + std::chrono::duration_cast<Duration>(wall - clock_.wall());
  };
  std::optional<std::chrono::system_clock::time_point> end;
  std::optional<TimePoint> asked_at;
  if (allocation_.end) end = std::chrono::system_clock::time_point(seconds(*allocation_.end));
  for (bool fresh = false; !fresh;) {
    if (!end || time_) {
      auto asking = time_left();
      const auto left = co_await std::move(asking);
      if (left.has_error() && left.error().code == Errc::Cancelled) co_return;
      if (left.has_error() && !end)
        handlers_.warn("only Slurm's signals stop this run before its job ends: " +
                       left.error().describe());
      if (left ? !*left : !end) co_return;  // no limit, or none that is known
      if (left) end = clock_.wall() + std::chrono::duration_cast<WallDuration>(**left);
      asked_at = clock_.now();
    }
    if (!time_) time_.emplace(before_end_, stop_grace_, began, at(*end));
    for (time_->end_is(at(*end)); clock_.now() < time_->stop_at(); time_->end_is(at(*end))) {
      const auto woken = co_await pause_for(kTimeEvery);
      if (!woken) co_return;
    }
    fresh = asked_at && clock_.now() - *asked_at < kFresh;
  }
  const auto left = std::max(time_->end() - clock_.now(), Duration{0});
  handlers_.stop({StopKind::Terminate, fmt::format("the time limit of Slurm's job {} in {}",
                                                   allocation_.job_id, format_duration(left))});
}

}  // namespace train
