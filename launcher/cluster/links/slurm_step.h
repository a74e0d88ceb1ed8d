// The Slurm step that holds this run's daemons: srun starts a traind on each node of our job. The
// token goes down srun's standard input to all of them, their addresses come up its standard
// output, and they leave once its input is closed, also because we have died.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/slurm_allocation.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/net/token.h"

namespace train {

/// How long the daemons of all nodes may take to come up; Slurm may run a prolog on each first.
inline constexpr Duration kSlurmStartLimit = std::chrono::minutes(3);

class SlurmStep {
 public:
  /// Start srun, from our PATH, with `environment` (srun_environment()). Unavailable if that cannot
  /// be done.
  static Result<SlurmStep> start(SlurmAllocation allocation, const std::string& traind,
                                 const EnvironmentMap& environment);

  /// Wait until each node's traind has announced itself. Unavailable, with what srun said, if one
  /// does not. `say` is called for what takes long. Blocks.
  Result<Unit> wait_for_daemons(Duration limit, const std::function<void(const std::string&)>& say);
  /// Return the addresses of the daemons that have come up, in the order of the job's nodes.
  std::vector<std::string> daemons() const;
  const Token& token() const { return token_; }
  const SlurmAllocation& allocation() const { return allocation_; }

  /// Append what the daemons write to stderr to this file, from now on and what came so far.
  void keep_log(const std::string& path);
  /// Take what has come since. Return what srun itself says of trouble. Call this now and then.
  std::vector<std::string> look();
  /// Return how srun has ended, as a text; nothing while it runs.
  const std::optional<std::string>& ended() const { return ended_; }
  /// Close its input, and wait until all daemons have left and srun ends, or kill it. Blocks for
  /// kSlurmEndLimit at most.
  void close();

 private:
  /// Lines as they come from a pipe, each cut to what we keep of it.
  struct Pipe {
    FileDescriptor end = FileDescriptor();
    std::string line = {};
    bool too_long = false;
  };

  SlurmStep(SlurmAllocation allocation, Token token)
      : allocation_(std::move(allocation)), token_(std::move(token)) {}
  Result<Unit> spawn(const std::string& traind, const EnvironmentMap& environment);
  void read_pipes();
  static bool read_lines(Pipe& pipe, const std::function<void(std::string_view)>& take);
  void take_output(std::string_view line);
  void take_error(std::string_view line);
  void reap(bool wait);
  Error failure() const;
  std::vector<std::string> missing_nodes() const;

  SlurmAllocation allocation_;
  Token token_;
  pid_t pid_ = -1;
  FileDescriptor process_, input_, log_;
  Pipe output_, error_;
  std::map<std::string, std::string> come_;  // nodes → addresses
  std::string log_text_;                     // until there is a file for it
  std::size_t log_bytes_ = 0;
  std::vector<std::string> troubles_;       // that srun told of, and nobody has taken yet
  std::optional<std::string> failed_task_;  // the first
  std::string first_error_, last_trouble_, first_of_traind_;
  std::optional<std::string> ended_;
};

/// How long srun may take to end, once its input is closed.
inline constexpr Duration kSlurmEndLimit = seconds(10);

}  // namespace train
