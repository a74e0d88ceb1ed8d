#include "launcher/cluster/run/run_setup.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <charconv>
#include <filesystem>
#include <utility>

#include "launcher/cluster/run/child_program.h"
#include "launcher/cluster/run/node_setups.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/secrets.h"
#include "lib/base/text_file.h"
#include "lib/base/thread.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr const char* kSetupOf = "TRAINRUN_SETUP_OF";  // the run's id

/// Kill our user's processes that were started with this variable. Return whether there are any.
bool kill_marked(const std::string& variable) {
  const std::string mark = '\0' + variable + '\0';
  bool found = false;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry("/proc", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const std::string name = entry->path().filename();
    pid_t pid = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), pid);
    struct stat owner {};
    if (parsed.ptr != name.data() + name.size() || pid <= 1 || pid == ::getpid()) continue;
    if (::stat(entry->path().c_str(), &owner) != 0 || owner.st_uid != ::geteuid()) continue;
    // The handle keeps its process, should another one get the number meanwhile.
    const FileDescriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    const std::string environment = '\0' + read_text(entry->path() / "environ");
    if (environment.find(mark) == std::string::npos) continue;
    const long killed = ::syscall(SYS_pidfd_send_signal, process.get(), SIGKILL, nullptr, 0);
    found = killed == 0 || found;
  }
  return found;
}

}  // namespace

std::string shown_command(const std::vector<std::string>& command) {
  constexpr std::size_t kBytesMax = 200;
  const bool line = command.size() == 3 && command[0] == "/bin/sh" && command[1] == "-c";
  std::string text = line ? command[2] : fmt::format("{}", fmt::join(command, " "));
  for (char& c : text)
    if (c == '\n') c = ' ';
  return utf8_text(redacted(text), kBytesMax);
}

RunSetup::~RunSetup() {
  if (!thread_.joinable()) return;
  stop();
  stop();
  wait();
}

void RunSetup::begin() {
  thread_ = start_thread("trainrun-setup", [this] { run(); });
}

void RunSetup::stop() { ++stops_; }

void RunSetup::end() {
  int none = 0;
  stops_.compare_exchange_strong(none, 1);
}

void RunSetup::wait() {
  if (thread_.joinable()) thread_.join();
}

void RunSetup::tell(std::function<void()> what) { boost::asio::post(executor_, std::move(what)); }

void RunSetup::end_leftovers() const {
  const auto deadline = std::chrono::steady_clock::now() + kSetupStopMax;
  const std::string mark = fmt::format("{}={}", kSetupOf, order_.run_id);
  while (stops_ == 0 && kill_marked(mark) && std::chrono::steady_clock::now() < deadline)
    ::poll(nullptr, 0, 10);
}

void RunSetup::run() {
  if (!order_.commands.empty()) end_leftovers();
  for (const std::vector<std::string>& command : order_.commands) {
    tell([this, text = fmt::format("setup: {} (its output: {})", shown_command(command),
                                   order_.log)] { handlers_.begins(text); });
    SetupFailure failure;
    const auto ran = run_command(command, failure);
    if (stops_ > 0) return;
    if (ran.has_error()) {
      failure.cause = fmt::format("setup: '{}' {}", shown_command(command), ran.error().message);
      return tell([this, failure = std::move(failure)] { handlers_.failed(failure); });
    }
  }
  if (order_.last) {
    const auto done = order_.last([this] { return stops_ > 0; });
    if (stops_ > 0) return;
    if (done.has_error())
      return tell([this, error = done.error()] { handlers_.last_failed(error); });
  }
  tell([this] { handlers_.succeeded(); });
}

Result<Unit> RunSetup::run_command(const std::vector<std::string>& command, SetupFailure& failure) {
  TRY_VOID(add_to_log(order_.log, fmt::format("[trainrun: setup: {}]\n", shown_command(command))));
  auto environment = order_.environment;
  environment[kSetupOf] = order_.run_id;
  TRY(ChildProgram child, ChildProgram::start({.argv = command,
                                               .folder = order_.folder,
                                               .environment = std::move(environment),
                                               .dies_with_us = true}));
  LastOutput said;
  const auto take = [&](std::string_view data) {
    said.add(data);
    const std::uint64_t room = kSetupLogBytesMax - std::min(logged_, kSetupLogBytesMax);
    logged_ += data.size();
    if (room > 0) (void)add_to_log(order_.log, data.substr(0, room));
  };
  TimePoint kill_at = TimePoint::max();
  bool asked = false;
  const auto until = [&] {
    const TimePoint now = std::chrono::steady_clock::now();
    if (stops_ > 1) return now;
    if (stops_ > 0 && !std::exchange(asked, true)) {
      child.signal(SIGTERM);
      kill_at = now + kSetupStopMax;
    }
    return kill_at;
  };
  (void)child.wait(until, take);
  child.signal(SIGKILL);  // it, or what it has left behind
  const ChildProgram::End end = child.reap(take);
  if (end.good()) return Unit{};
  failure.lines = said.lines();
  for (std::string& line : failure.lines) line = redacted(line);
  const std::string line = redacted(said.last());
  return Error{Errc::Unavailable, end_text(end) + (line.empty() ? "" : ": " + line)};
}

}  // namespace train
