// The one session of this process: the public functions are free functions, so it has to be found
// from everywhere.
#include "sdk/client/session.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

#include "sdk/client/environment.h"
#include "sdk/client/failure.h"
#include "sdk/client/solo_session.h"
#include "sdk/client/supervised_session.h"
#include "sdk/client/worker_session.h"

namespace train::sdk {
namespace {

// Never destroyed: other threads of the program may still call while it ends.
std::atomic<WorkerSession*> process_session = nullptr;
std::atomic<bool> in_fork_child = false;

const char* variable(const char* name) { return std::getenv(name); }

int rank_variable(const char* name) {
  const char* text = variable(name);
  return text == nullptr ? 0 : static_cast<int>(std::strtol(text, nullptr, 10));
}

std::unique_ptr<WorkerSession> make_session() {
  if (const char* socket = variable("TRAINRUN_SOCKET")) {
    WorkerHello hello;
    hello.build = TRAINRUN_BUILD;
    hello.rank = rank_variable("RANK");
    hello.attempt = static_cast<std::uint32_t>(rank_variable("TRAINRUN_ATTEMPT"));
    hello.pid = ::getpid();
    const int fd = value_or_throw(connect_supervisor(socket));
    return std::make_unique<SupervisedSession>(value_or_throw(join_supervisor(fd, hello)));
  }
  WorkerInfo info = info_from_environment(variable);
  const std::string spec = spec_path(process_arguments(), variable);
  if (!spec.empty()) read_spec(spec, info);
  info.run_name = program_invocation_short_name;
  const std::string checkpoints = "checkpoints";
  find_restorable(checkpoints, info);
  return std::make_unique<SoloSession>(std::move(info), checkpoints);
}

void finish_at_exit() {
  if (WorkerSession* session = existing_session()) session->finish();
}

void after_fork_in_child() {
  in_fork_child = true;
  if (WorkerSession* session = process_session) session->abandon_in_fork_child();
}

}  // namespace

WorkerSession& current_session() {
  if (in_fork_child.load(std::memory_order_relaxed)) {
    throw Failure("unavailable",
                  "this process was forked from a worker, and only the worker itself talks to its "
                  "supervisor (call "
                  "the SDK before or without the fork, or start a new program)");
  }
  if (WorkerSession* session = process_session.load(std::memory_order_acquire)) return *session;
  static std::mutex making;
  const std::lock_guard lock(making);
  if (WorkerSession* session = process_session) return *session;
  WorkerSession* made = make_session().release();
  process_session = made;
  std::atexit(finish_at_exit);
  pthread_atfork(nullptr, nullptr, after_fork_in_child);
  return *made;
}

WorkerSession* existing_session() { return in_fork_child ? nullptr : process_session.load(); }

const WorkerInfo& worker_info() { return current_session().info(); }

std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                    std::chrono::milliseconds timeout) {
  return current_session().all_gather(name, mine, timeout);
}

void set_data_position(const std::string& dataset, std::uint64_t epoch,
                       std::int64_t rows_consumed) {
  current_session().set_data_position(dataset, epoch, rows_consumed);
}

}  // namespace train::sdk
