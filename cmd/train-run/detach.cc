#include "cmd/train-run/detach.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>

#include "cmd/build_info.h"
#include "cmd/train-run/parse_job.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/cluster/run/run_record.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/print.h"

namespace train {
namespace {

constexpr Duration kPrivateDaemonTimeout = seconds(30);   // to come up
constexpr Duration kPrivateDaemonLookEvery = seconds(1);  // whether it has ended
constexpr int kPrivateDaemonFailuresMax = 3;

int fail(const Error& error) {
  print_error(error);
  return exit_code::kUnavailable;
}

// Choose the run's name now: its controller must know which folder a later one resumes.
void choose_name(RunOptions& run, std::vector<std::string>& words) {
  if (!run.unique_name) return;
  std::string& name = run.parsed.spec.run_config.name;
  const std::string first = name;
  const std::string& storage = run.parsed.spec.run_config.storage_path;
  std::error_code ec;
  for (int i = 2; std::filesystem::exists(run_path(storage, name), ec); ++i)
    name = fmt::format("{}-{}", first, i);
  add_options(words, {"--set", fmt::format("run_config.name=\"{}\"", name)});
  run.unique_name = false;
}

bool holds_lock(const RunFolder& folder, pid_t pid) {
  PosixFileSystem files;
  std::error_code ec;
  if (!std::filesystem::exists(folder.lock(), ec)) return false;
  const auto holder = read_lock_holder(files, folder.lock());
  if (!holder || holder->pid != pid || holder->host != host_name()) return false;
  const auto lock = files.lock(folder.lock());
  return lock.has_error() && lock.error().code == Errc::Unavailable;
}

/// Ask a private traind until it is up. One that was found may be leaving, with the run before:
/// then start another.
Result<DetachOutcome> ask_private(
    PrivateDaemon& daemon, const std::function<Result<DetachOutcome>(const std::string&)>& ask) {
  const TimePoint until = std::chrono::steady_clock::now() + kPrivateDaemonTimeout;
  for (;;) {
    const TimePoint asked = std::chrono::steady_clock::now();
    auto outcome = ask(daemon.runtime_dir());
    const TimePoint now = std::chrono::steady_clock::now();
    if (outcome || outcome.error().code != Errc::Unavailable || now >= until) return outcome;
    if (!daemon.ended()) {
      if (now - asked < kPrivateDaemonLookEvery) return outcome;  // it answered, and refused
      continue;
    }
    if (daemon.failures() >= kPrivateDaemonFailuresMax) return outcome;
    TRY_VOID(daemon.start());
  }
}

/// Start the controller. Set `taken` if another run has begun under the name that we had chosen.
int start_detached(RunOptions run, std::vector<std::string> words, const RunCommand& options,
                   bool* taken) {
  const bool chosen = run.unique_name;
  choose_name(run, words);
  const JobSpec& spec = run.parsed.spec;
  const RunFolder folder(run_path(spec.run_config.storage_path, spec.run_config.name));
  // A traind that comes up may restart the controller before we ask for it.
  if (words.front() == "resume") {
    std::error_code ec;
    const auto held = is_held(folder.lock());
    if (held && !*held) std::filesystem::remove(folder.stop_request_taken(), ec);
  }
  DetachRequest request;
  request.build = kBuild;
  request.owns_run = [&](pid_t pid) { return holds_lock(folder, pid); };
  request.message.working_dir = std::filesystem::current_path().string();
  request.message.env = run.environment;
  request.message.run_dir = folder.path();
  const auto ask = [&](const std::string& runtime_dir, bool is_private, Duration timeout) {
    request.runtime_dir = runtime_dir;
    request.timeout = timeout;
    const auto command = [&](std::vector<std::string> argv) {
      argv.insert(argv.begin(), own_program());
      add_options(argv, {"--detached-controller"});
      if (is_private) add_options(argv, {"--private-daemon", runtime_dir});
      return argv;
    };
    request.message.argv = command(words);
    std::vector<std::string> again{"resume", folder.path(), kRestartedOption};
    const std::vector<std::string> output = words_of(options.worker_output);
    again.insert(again.end(), output.begin(), output.end());
    if (!options.wait_for_debugger.empty())
      again.push_back("--wait-for-debugger=" + options.wait_for_debugger);
    again.insert(again.end(), {"--log-format", options.log_format});
    request.message.resume_argv = command(std::move(again));
    return detach_controller(request);
  };

  // The user's own traind outlives the private one of a run. A run without nodes has a private one
  // in any case; if that also runs the controller, each of the two restarts the other.
  Result<DetachOutcome> outcome = Error{Errc::Unavailable, ""};
  const bool named = !options.runtime_dir.empty();
  if (named || spec.cluster.names_nodes())
    outcome = ask(named ? options.runtime_dir : user_runtime_dir(), false, Duration{0});
  if (!outcome && (named || outcome.error().code != Errc::Unavailable))
    return fail(outcome.error());
  if (!outcome) {
    auto daemon = private_daemon_of(run, true);
    if (!daemon) return fail(daemon.error());
    outcome = ask_private(**daemon, [&](const std::string& runtime_dir) {
      return ask(runtime_dir, true, kPrivateDaemonLookEvery);
    });
    if (!outcome) return fail(outcome.error());
  }
  *taken = chosen && !outcome->up && outcome->exit_code == exit_code::kTaken;
  if (*taken) return outcome->exit_code;
  if (!outcome->up) {
    if (outcome->said.empty())
      print_err("train-run: error: the run did not begin: see {}/launcher.log\n", folder.path());
    print_err("{}", Lines{outcome->said});
    return outcome->exit_code;
  }
  print_out(
      "run {} continues in the background\n"
      "folder: {}\n"
      "follow it with `train-run attach {}`, stop it with `train-run stop {}`\n",
      spec.run_config.name, folder.path(), spec.run_config.name, spec.run_config.name);
  return 0;
}

}  // namespace

void add_options(std::vector<std::string>& words, const std::vector<std::string>& options) {
  words.insert(std::find(words.begin(), words.end(), "--"), options.begin(), options.end());
}

int detach(const RunOptions& run, const std::vector<std::string>& words,
           const RunCommand& options) {
  for (;;) {
    bool taken = false;
    const int code = start_detached(run, words, options, &taken);
    if (!taken) return code;
  }
}

}  // namespace train
