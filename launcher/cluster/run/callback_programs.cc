#include "launcher/cluster/run/callback_programs.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <mutex>
#include <thread>

#include "launcher/cluster/run/child_program.h"
#include "launcher/cluster/run/node_setups.h"
#include "launcher/cluster/run/run_setup.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/secrets.h"
#include "lib/base/thread.h"

namespace train {

std::string callback_id(const std::vector<std::string>& command) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a, 64 bits
  const auto add = [&hash](unsigned char byte) { hash = (hash ^ byte) * 0x100000001b3; };
  for (const std::string& word : command) {
    for (const char c : word) add(static_cast<unsigned char>(c));
    add(0);
  }
  return fmt::format("{:016x}", hash);
}

/// Runs one of them on a thread.
class CallbackPrograms::Program {
 public:
  Program(std::vector<std::string> command, const Options& options)
      : command_(std::move(command)),
        options_(options),
        log_(fmt::format("{}/{}.log", options.folder.callbacks(), callback_id(command_))) {}
  ~Program() {
    end_by(TimePoint{});
    if (thread_.joinable()) thread_.join();
  }

  void begin() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      return say(system_error(errno, "making a pipe").message);
    input_.reset(ends[0]);
    leash_.reset(ends[1]);
    thread_ = start_thread("trainrun-call", [this] { run(); });
  }
  /// Close its input, and kill it if it runs longer than that.
  void end_by(TimePoint end) {
    const std::lock_guard lock(mutex_);
    leash_.reset();
    ending_ = true;
    end_ = std::min(end_, end);
  }
  void join() {
    if (thread_.joinable()) thread_.join();
  }

 private:
  void run();
  void say(const std::string& what) const {
    options_.say(fmt::format("the callback '{}' {}", shown_command(command_), what));
  }
  bool ending() const {
    const std::lock_guard lock(mutex_);
    return ending_;
  }

  const std::vector<std::string> command_;
  const Options& options_;
  const std::string log_;
  FileDescriptor input_;
  mutable std::mutex mutex_;  // protects all below
  FileDescriptor leash_;
  bool ending_ = false;
  TimePoint end_ = TimePoint::max();
  std::thread thread_;
};

void CallbackPrograms::Program::run() {
  ChildProgram::Options how{.argv = command_,
                            .folder = options_.working_dir,
                            .environment = options_.environment,
                            .input = input_.get(),
                            .dies_with_us = true};
  how.environment["TRAINRUN_EVENTS"] = options_.folder.callback_events();
  how.environment["TRAINRUN_CALLBACK_STATE"] =
      fmt::format("{}/{}.state", options_.folder.callbacks(), callback_id(command_));
  how.environment.try_emplace("PYTHONUNBUFFERED", "1");  // so that its log is complete
  auto child = ChildProgram::start(how);
  input_.reset();
  if (!child) return say(child.error().message);
  LastOutput said;
  std::error_code none;
  const auto before = std::filesystem::file_size(log_, none);  // by earlier launchers
  std::uint64_t logged = none ? 0 : before;
  const auto take = [&](std::string_view data) {
    said.add(data);
    const std::uint64_t room = kCallbackLogBytesMax - std::min(logged, kCallbackLogBytesMax);
    logged += data.size();
    if (room > 0) (void)add_to_log(log_, data.substr(0, room));
  };
  TimePoint kill_at = TimePoint::max();
  const auto until = [&] {
    const TimePoint now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex_);
    if (kill_at == TimePoint::max() && now >= end_) {
      child->signal(SIGTERM);
      kill_at = now + kCallbackStopMax;
    }
    return kill_at;
  };
  const bool ended = child->wait(until, take);
  const bool early = !ending();
  child->signal(SIGKILL);  // it, or what it has left behind
  const ChildProgram::End end = child->reap(take);
  const std::string line = redacted(said.last());
  const std::string rest = line.empty() ? "" : fmt::format(": {} (its output: {})", line, log_);
  if (kill_at != TimePoint::max() || !ended)
    say(fmt::format("was still busy when the run had ended, and was stopped{}", rest));
  else if (!end.good())
    say(fmt::format("{}{}{}", end_text(end), early ? "; it is told nothing more" : "", rest));
  else if (early)
    say("ended before the run; it is told nothing more" + rest);
}

CallbackPrograms::CallbackPrograms(Options options) : options_(std::move(options)) {
  for (const std::vector<std::string>& command : options_.commands)
    programs_.push_back(std::make_unique<Program>(command, options_));
}

CallbackPrograms::~CallbackPrograms() = default;

void CallbackPrograms::begin() {
  for (const auto& program : programs_) program->begin();
}

void CallbackPrograms::finish() {
  const TimePoint end = std::chrono::steady_clock::now() + kCallbackEndMax;
  for (const auto& program : programs_) program->end_by(end);
  for (const auto& program : programs_) program->join();
}

}  // namespace train
