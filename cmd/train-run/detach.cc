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
#include "launcher/cluster/sweep/sweep_folder.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/base/terminal_text.h"

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

/// What is to be run under a traind.
struct Controller {
  DetachRequest request;                  // without the words of its commands
  std::vector<std::string> words, again;  // arguments of the first train-run, and of a later one
  std::string runtime_dir;                // of the traind that the user names; empty: none
  /// Whether this user's own traind is asked, if there is one.
  bool own_traind_first = true;
  /// Returns the private traind that runs it otherwise.
  std::function<Result<PrivateDaemon>()> private_daemon;
};

/// Have a traind run it: the one that is named, or the user's own, which outlives a private one.
Result<DetachOutcome> run_under_traind(const Controller& controller) {
  const auto ask = [&](const std::string& runtime_dir, bool is_private, Duration timeout) {
    DetachRequest request = controller.request;
    request.runtime_dir = runtime_dir;
    request.timeout = timeout;
    const auto command = [&](std::vector<std::string> argv) {
      argv.insert(argv.begin(), own_program());
      add_options(argv, {"--detached-controller"});
      if (is_private) add_options(argv, {"--private-daemon", runtime_dir});
      return argv;
    };
    request.message.argv = command(controller.words);
    request.message.resume_argv = command(controller.again);
    return detach_controller(request);
  };
  const bool named = !controller.runtime_dir.empty();
  Result<DetachOutcome> outcome = Error{Errc::Unavailable, ""};
  if (named || controller.own_traind_first)
    outcome = ask(named ? controller.runtime_dir : user_runtime_dir(), false, Duration{0});
  if (outcome || named || outcome.error().code != Errc::Unavailable) return outcome;
  TRY(PrivateDaemon daemon, controller.private_daemon());
  return ask_private(daemon, [&](const std::string& runtime_dir) {
    return ask(runtime_dir, true, kPrivateDaemonLookEvery);
  });
}

/// Say that it goes on, or why it does not. Return the exit code.
/// `word`: by which commands find it.
int tell(const DetachOutcome& outcome, const char* what, const std::string& name,
         const std::string& folder, const std::string& word) {
  if (!outcome.up) {
    if (outcome.said.empty())
      print_err("train-run: error: the {} did not begin: see {}/launcher.log\n", what, folder);
    print_err("{}", Lines{outcome.said});
    return outcome.exit_code;
  }
  print_out(
      "{} {} continues in the background\n"
      "folder: {}\n"
      "follow it with `train-run attach {}`, stop it with `train-run stop {}`\n",
      what, name, folder, word, word);
  return 0;
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
  Controller controller{.words = words, .runtime_dir = options.runtime_dir};
  DetachRequest& request = controller.request;
  request.build = kBuild;
  request.owns_run = [&](pid_t pid) { return holds_lock(folder, pid); };
  request.has_ended = [&] { return std::filesystem::exists(folder.exit_json()); };
  request.message.working_dir = std::filesystem::current_path().string();
  request.message.env = run.environment;
  request.message.run_dir = folder.path();
  controller.again = words_to_resume(folder.path(), options);
  // A run without nodes has a private traind in any case; if that also runs the controller, each of
  // the two restarts the other.
  controller.own_traind_first = spec.cluster.names_nodes();
  controller.private_daemon = [&]() -> Result<PrivateDaemon> {
    TRY(auto daemon, private_daemon_of(run, true));
    return *daemon;
  };
  const auto outcome = run_under_traind(controller);
  if (!outcome) return fail(outcome.error());
  *taken = chosen && !outcome->up && outcome->exit_code == exit_code::kTaken;
  if (*taken) return outcome->exit_code;
  const std::string& name = spec.run_config.name;
  return tell(*outcome, "run", name, folder.path(), name);
}

}  // namespace

void add_options(std::vector<std::string>& words, const std::vector<std::string>& options) {
  words.insert(std::find(words.begin(), words.end(), "--"), options.begin(), options.end());
}

std::vector<std::string> words_to_resume(const std::string& folder, const RunCommand& options) {
  std::vector<std::string> words{"resume", folder, kRestartedOption};
  const std::vector<std::string> output = words_of(options.worker_output);
  words.insert(words.end(), output.begin(), output.end());
  if (!options.wait_for_debugger.empty())
    words.push_back("--wait-for-debugger=" + options.wait_for_debugger);
  words.insert(words.end(), {"--log-format", options.log_format});
  return words;
}

int detach(const RunOptions& run, const std::vector<std::string>& words,
           const RunCommand& options) {
  for (;;) {
    bool taken = false;
    const int code = start_detached(run, words, options, &taken);
    if (!taken) return code;
  }
}

int detach_sweep(const std::string& path, bool names_nodes, const SweepCommand& options) {
  const RunFolder folder(path);  // a sweep's lock is in the same place
  Controller controller{.words = {"resume", path},
                        .again = {"resume", path, kRestartedOption},
                        .runtime_dir = options.runtime_dir};
  if (options.until > 0) {
    controller.words = {"sweep", path, "--more-until", std::to_string(options.until)};
    controller.again = controller.words;
    controller.again.emplace_back(kRestartedOption);
  }
  controller.own_traind_first = names_nodes;
  DetachRequest& request = controller.request;
  request.build = kBuild;
  request.owns_run = [&](pid_t pid) { return holds_lock(folder, pid); };
  request.has_ended = [&] { return std::filesystem::exists(folder.exit_json()); };
  request.message.working_dir = std::filesystem::current_path().string();
  request.message.env = submitters_environment();
  request.message.run_dir = path;
  controller.private_daemon = [&]() -> Result<PrivateDaemon> {
    const std::string note = SweepFolder(path).daemon_note();
    auto daemon = PrivateDaemon::find(note);
    if (!daemon) {
      PrivateDaemon::clean_up_lost(note);
      daemon.emplace();
    }
    if (daemon->ended()) TRY_VOID(daemon->start());
    return *daemon;  // the driver notes it, once the sweep is its own
  };
  const auto outcome = run_under_traind(controller);
  if (!outcome) return fail(outcome.error());
  return tell(*outcome, "sweep", std::filesystem::path(path).filename().string(), path,
              shell_word(path));
}

}  // namespace train
