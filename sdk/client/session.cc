// Holds the one session of this process. The public functions are free functions, so they must be
// able to find it from anywhere.
#include "sdk/client/session.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <mutex>

#include "lib/storage/run_folder.h"
#include "sdk/client/environment.h"
#include "sdk/client/failure.h"
#include "sdk/client/progress.h"
#include "sdk/client/solo_session.h"
#include "sdk/client/supervised_session.h"
#include "sdk/client/validation.h"
#include "sdk/client/worker_session.h"

namespace train::sdk {
namespace {

// Never destroyed: other threads of the program may still call the SDK while it exits.
std::atomic<WorkerSession*> process_session = nullptr;
std::atomic<bool> in_fork_child = false;

const char* variable(const char* name) { return std::getenv(name); }

int int_variable(const char* name, int otherwise) {
  const char* text = variable(name);
  return text == nullptr ? otherwise : static_cast<int>(std::strtol(text, nullptr, 10));
}

WorkerHello hello_of_process() {
  WorkerHello hello;
  hello.checkpoint_requests = true;
  hello.memory_profiles = true;
  hello.ingest_rosters = true;
  hello.calls = true;
  if (const char* ingest = variable("TRAINRUN_INGEST")) hello.ingest = ingest;
  hello.build = TRAINRUN_BUILD;
  hello.rank = int_variable("RANK", 0);
  hello.attempt = static_cast<std::uint32_t>(int_variable("TRAINRUN_ATTEMPT", 0));
  hello.pid = ::getpid();
  hello.standby = int_variable("TRAINRUN_STANDBY", -1);
  return hello;
}

/// Begin a run. A process that waited for it gets the variables of its environment that it would
/// otherwise have been started with.
std::unique_ptr<WorkerSession> begin_run(JoinedSocket joined) {
  for (const auto& [name, value] : joined.welcome.env) ::setenv(name.c_str(), value.c_str(), 1);
  ::unsetenv("TRAINRUN_STANDBY");
  share_progress(std::move(joined.progress));
  return std::make_unique<SupervisedSession>(std::move(joined));
}

/// Join the run. If this process was started ahead of its attempt, wait until it has a rank.
std::unique_ptr<WorkerSession> join_run(const char* socket) {
  const int fd = value_or_throw(connect_supervisor(socket));
  return begin_run(value_or_throw(join_supervisor(fd, hello_of_process())));
}

std::unique_ptr<WorkerSession> make_session() {
  if (const char* socket = variable("TRAINRUN_SOCKET")) return join_run(socket);
  WorkerInfo info = info_from_environment(variable);
  const std::string spec = spec_path(process_arguments(), variable);
  if (!spec.empty()) read_spec(spec, info);
  info.run_name = program_invocation_short_name;
  if (validating()) {
    const auto text = [](const char* name) { return std::string(variable(name) ?: ""); };
    info.validating = true;
    info.restore_dir = text("TRAINRUN_CHECKPOINT_DIR");
    info.run_name = text("TRAINRUN_RUN_NAME");
    info.run_id = text("TRAINRUN_RUN_ID");
    return std::make_unique<SoloSession>(std::move(info), "");
  }
  std::string checkpoints = "checkpoints";
  if (const char* folder = variable("TRAINRUN_SOLO_DIR")) {  // train-run has started us alone
    join_run_folder(folder, info);
    checkpoints = RunFolder(folder).checkpoints();
  }
  find_restorable(checkpoints, info);
  return std::make_unique<SoloSession>(std::move(info), checkpoints);
}

struct Resets {
  std::mutex mutex;
  std::vector<void (*)()> all;
};
Resets& resets() {
  static Resets& resets = *new Resets;  // threads may outlive main()
  return resets;
}

void reset_after_run() {
  std::vector<void (*)()> all;
  {
    const std::lock_guard lock(resets().mutex);
    all = resets().all;
  }
  for (void (*reset)() : all) reset();
}

/// What was printed belongs to the run that ends. Other streams may wait for input for ever.
void flush_output() {
  std::cout.flush();
  std::cerr.flush();
  std::fflush(stdout);
  std::fflush(stderr);
}

void finish_at_exit() {
  if (WorkerSession* session = existing_session()) session->finish();
}

void after_fork_in_child() {
  in_fork_child = true;
  abandon_progress_in_fork_child();
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

bool begin_next_run() {
  WorkerSession& ended = current_session();
  if (ended.info().keeps_workers) {
    reset_after_run();
    flush_output();
  }
  if (!ended.finish_and_stay()) return false;
  WorkerHello hello = hello_of_process();
  hello.rank = ended.info().rank_of_all;
  hello.stays = true;
  auto joined = value_or_throw(wait_for_next_run(variable("TRAINRUN_SOCKET"), hello));
  if (!joined) return false;
  reset_after_run();  // once more: other threads of the program may have gone on
  // The old session stays: threads of the program may still call it.
  process_session = begin_run(std::move(*joined)).release();
  return true;
}

void at_run_end(void (*reset)()) {
  const std::lock_guard lock(resets().mutex);
  resets().all.push_back(reset);
}

WorkerSession* existing_session() { return in_fork_child ? nullptr : process_session.load(); }

const WorkerInfo& worker_info() { return current_session().info(); }

std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                    std::chrono::milliseconds timeout) {
  return current_session().all_gather(name, mine, timeout);
}

void set_preprocessors(const std::string& dataset, std::string fitted) {
  current_session().set_preprocessors(dataset, std::move(fitted));
}

IngestRoster ingest_roster() { return current_session().ingest_roster(); }

void set_data_position(const std::string& dataset, const DataPosition& position) {
  current_session().set_data_position(dataset, position);
}

}  // namespace train::sdk
