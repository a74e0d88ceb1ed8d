// train::WarmTrainer: several runs by the same workers.
#include "tests/e2e/warm_drivers.h"

namespace train::e2e {
namespace {

class WarmCppDrivers : public WarmDrivers {
 protected:
  Process& drive(const std::vector<std::string>& words) override {
    std::vector<std::string> argv{program("warm_driver")};
    argv.insert(argv.end(), words.begin(), words.end());
    return cluster.start(argv, {.env = environment(), .prefix = {}, .cwd = ""});
  }
};

TEST_F(WarmCppDrivers, TheSameWorkersDoSeveralRuns) { several_runs(); }
TEST_F(WarmCppDrivers, ARunThatFailedIsFollowedByNewWorkers) { a_failed_run(); }
TEST_F(WarmCppDrivers, AWorkerThatDiesBetweenRunsIsReplaced) { a_worker_that_dies_between_runs(); }
TEST_F(WarmCppDrivers, ALaterRunStartsItsWorkersAgain) { a_restart_in_the_second_run(); }
TEST_F(WarmCppDrivers, AShutdownLeavesNoProcess) { a_shutdown(); }
TEST_F(WarmCppDrivers, AKilledDriverLeavesNoProcess) { a_killed_driver(); }

}  // namespace
}  // namespace train::e2e
