#include "daemon/supervisor/processes/validation_runner.h"

#include <fmt/format.h>
#include <signal.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <fstream>
#include <vector>

#include "daemon/supervisor/processes/command_runner.h"
#include "lib/net/within.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::uint64_t kOutputBytesMax = 1u << 20;  // the launcher gets a copy
constexpr std::uint64_t kResultBytesMax = 64u << 10;
constexpr std::size_t kReadBytes = 64u << 10;
constexpr Duration kOutputEndMax = seconds(2);  // for pipes that something keeps open

Result<Unit> write_spec(const std::string& path, const StartWorkers& start) {
  std::ofstream file(path, std::ios::trunc);
  file << spec_json(start.run);
  if (file.flush()) return Unit{};
  return system_error(errno, "writing " + path);
}

/// Set the outcome of a process that has ended, from its exit status and the files that it left.
void conclude(const WaitStatus& status, const ValidationFiles& files, ValidationEnded& ended) {
  ended.status = "failed";
  if (status.signaled || status.status != 0) {
    ended.error = end_text(status);
    if (const auto error = read_error_file(files.error); error && !error->what.empty())
      ended.error += ": " + error->what;
    return;
  }
  PosixFileSystem local;
  auto result = read_small_file(local, files.result, kResultBytesMax);
  if (!result) {
    const bool none = result.error().code == Errc::NotFound;
    ended.error = none ? "it exited with 0, and wrote nothing to $TRAINRUN_RESULT_FILE"
                       : result.error().message;
    return;
  }
  ended.status = "validated";
  ended.result_json = std::move(*result);
}

}  // namespace

void ValidationRunner::Running::kill() const {
  if (cgroup) cgroup->kill();
  ::kill(-process.pid, SIGKILL);  // its session's process group
}

void ValidationRunner::run(const RunValidation& order, const NodeEnvironment& node,
                           const std::string& dir, const Confinement& confinement) {
  if (running_ && running_->order.checkpoint == order.checkpoint) return;
  if (!running_ && ended_ && ended_->checkpoint == order.checkpoint) return say_again();
  kill();
  ended_.reset();
  auto started = start(order, node, dir, confinement);
  if (!started) return failed(order, started.error());
  running_ = std::move(*started);
  scope_.spawn("validation output", read(running_, running_->process.stdout_fd));
  scope_.spawn("validation errors", read(running_, running_->process.stderr_fd));
  scope_.spawn("validation", watch(running_));
}

void ValidationRunner::failed(const RunValidation& order, const Error& error) {
  ValidationEnded ended{.checkpoint = order.checkpoint,
                        .status = "failed",
                        .result_json = {},
                        .error = error.describe(),
                        .output = {}};
  say(std::move(ended));
}

Result<ValidationRunner::Shared> ValidationRunner::start(const RunValidation& order,
                                                         const NodeEnvironment& node,
                                                         const std::string& dir,
                                                         const Confinement& confinement) {
  auto running = std::make_shared<Running>();
  running->order = order;
  const std::string base = fmt::format("{}/{:06}", dir, order.checkpoint);
  std::error_code ec;
  std::filesystem::remove_all(dir, ec);  // of the previous validation
  std::filesystem::create_directories(dir, ec);
  running->files = {.checkpoint_dir = order.dir,
                    .result = base + ".result.json",
                    .error = base + ".error.json",
                    .spec = base + ".spec.json"};
  TRY_VOID(write_spec(running->files.spec, node.start));
  TRY(auto output, OutputSpool::create(base + ".out", kOutputBytesMax));
  running->output.emplace(std::move(output));
  // Use a new group for each process: a kernel may kill whatever starts in one that was killed
  // before.
  running->cgroup = confinement.group_without_claim(fmt::format("validation-{}", ++started_));
  TRY(running->process,
      spawn_piped(executor_, {.argv = order.command.empty() ? node.start.command : order.command,
                              .working_dir = node.start.working_dir,
                              .env = validation_environment(node, running->files, order.use_gpu),
                              .inherit_fds = {},
                              .cgroup = running->cgroup,
                              .rules = confinement.rules()}));
  return running;
}

asio::awaitable<void> ValidationRunner::read(Shared running, int fd) {
  asio::posix::stream_descriptor pipe(executor_, fd);
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const auto [error, size] =
        co_await pipe.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) break;
    running->output->append({buffer.data(), size});
  }
  --running->pipes;
  changed_.notify();
}

asio::awaitable<void> ValidationRunner::watch(Shared running) {
  const pid_t pid = running->process.pid;
  const TimePoint began = clock_.now();
  ValidationEnded ended;
  ended.checkpoint = running->order.checkpoint;
  Result<WaitStatus> status =
      co_await within(milliseconds(running->order.timeout_ms), wait_for_end(executor_, pid));
  if (!status && status.error().code == Errc::Timeout) {
    ended.status = "timeout";
    ended.error = fmt::format("it took longer than {}",
                              format_duration(milliseconds(running->order.timeout_ms)));
    running->kill();
    status = co_await wait_for_end(executor_, pid);
  }
  if (!status) co_return;
  running->kill();  // what it left behind
  const TimePoint give_up = clock_.now() + kOutputEndMax;
  while (running->pipes > 0 && clock_.now() < give_up) {
    const auto woken = co_await changed_.wait_until(give_up);
    if (!woken) break;
  }
  if (running->cgroup) running->cgroup->remove();
  if (running->unwanted) co_return;
  running_.reset();
  if (ended.status.empty()) conclude(*status, running->files, ended);
  const OutputSpool& output = *running->output;
  for (std::uint64_t offset = 0; offset < output.total();) {
    const std::string piece = output.read(offset, kOutputBytesMax);
    if (piece.empty()) break;
    ended.output += piece;
    offset += piece.size();
  }
  ended.took_ms = std::chrono::duration_cast<milliseconds>(clock_.now() - began).count();
  say(std::move(ended));
}

void ValidationRunner::say(ValidationEnded ended) {
  ended_ = std::move(ended);
  say_again();
}

void ValidationRunner::say_again() {
  if (ended_) uplink_.send(*ended_);
}

void ValidationRunner::kill() {
  if (!running_) return;
  running_->unwanted = true;
  running_->kill();
  running_.reset();
}

}  // namespace train
