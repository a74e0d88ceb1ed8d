// Validates committed checkpoints when the launcher asks for it: one process at a time, in a
// session (and cgroup) of its own, beside the workers or after them. Tells every launcher that
// attaches how the validation ended, until it is asked to validate another checkpoint. The
// supervisor owns the process. The launcher decides where the result is kept, and what follows from
// it.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/supervisor/limits/cgroup.h"
#include "daemon/supervisor/output/output_spool.h"
#include "daemon/supervisor/processes/spawn.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"

namespace train {

class ValidationRunner {
 public:
  /// All arguments must outlive the flows in `scope`.
  ValidationRunner(asio::any_io_executor executor, Scope& scope, Uplink& uplink)
      : executor_(executor), scope_(scope), uplink_(uplink), changed_(executor) {}

  /// Begin the validation, unless it is running already. Kill a validation of another checkpoint.
  /// The call reads `node` only before it returns. `dir` is for the files of the process.
  void run(const RunValidation& order, const NodeEnvironment& node, const std::string& dir,
           const Confinement& confinement);
  /// Tell the launcher that the validation could not even begin.
  void failed(const RunValidation& order, const Error& error);
  /// Tell a launcher that attached how the newest validation ended.
  void say_again();
  /// Kill the running validation, with all its processes, and send nothing about it.
  void kill();

 private:
  struct Running {
    RunValidation order;
    ValidationFiles files;
    PipedProcess process;
    std::optional<Cgroup> cgroup;
    std::optional<OutputSpool> output;
    int pipes = 2;  // not read to their end yet
    bool unwanted = false;
    void kill() const;
  };
  /// Shared with the flows that watch the process, even after it has become unwanted.
  using Shared = std::shared_ptr<Running>;

  Result<Shared> start(const RunValidation& order, const NodeEnvironment& node,
                       const std::string& dir, const Confinement& confinement);
  asio::awaitable<void> watch(Shared running);
  asio::awaitable<void> read(Shared running, int fd);
  void say(ValidationEnded ended);

  asio::any_io_executor executor_;
  Scope& scope_;
  Uplink& uplink_;
  Notifier changed_;  // a pipe has reached its end
  SystemClock clock_;
  Shared running_;
  int started_ = 0;
  std::optional<ValidationEnded> ended_;  // how the newest validation ended
};

}  // namespace train
