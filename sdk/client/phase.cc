#include <train/progress.h>

#include <algorithm>

#include "sdk/client/progress.h"
#include "sdk/client/worker_session.h"

namespace train {
namespace {

constexpr std::chrono::milliseconds kLimitMax = std::chrono::hours(24 * 365);

/// Join the run first, as all functions of the SDK do.
std::chrono::milliseconds joined_limit(const PhaseOptions& options) {
  sdk::current_session();
  return std::min(options.limit, kLimitMax);
}

}  // namespace

struct PhaseScope::Impl {
  sdk::InPhase inside;
};

PhaseScope::PhaseScope(std::string_view name, const PhaseOptions& options)
    : impl_(new Impl{sdk::InPhase(Phase::Own, name, joined_limit(options))}) {}
PhaseScope::~PhaseScope() = default;
void PhaseScope::say(std::string_view text) const { sdk::say_in_phase(text); }

PhaseScope phase(std::string_view name, const PhaseOptions& options) { return {name, options}; }

void step() {
  sdk::current_session();
  sdk::end_step(StepSource::Program);
}

}  // namespace train
