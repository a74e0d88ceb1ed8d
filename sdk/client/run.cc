#include <cxxabi.h>
#include <train/train.h>

#include <atomic>
#include <cstdio>
#include <cstring>

#include "sdk/client/crash_report.h"
#include "sdk/client/debugger_wait.h"
#include "sdk/client/ingest.h"
#include "sdk/client/validation.h"
#include "sdk/client/worker_session.h"

namespace train::detail {
namespace {

constexpr int kUsageError = 2;

/// Return what is wrong with a --trainrun- flag, or nothing.
std::string check_flags(int argc, char** argv) {
  for (int i = 1; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
    const std::string flag = argv[i];
    if (flag.starts_with("--trainrun-") && !flag.starts_with("--trainrun-spec=")) {
      return "unknown flag '" + flag +
             "'; flags that begin with --trainrun- are the SDK's: --trainrun-spec=FILE";
    }
  }
  return {};
}

int report_error(sdk::WorkerSession& session, const std::exception_ptr& exception) {
  const UserError error = sdk::describe_exception(exception);
  const bool supervised = session.info().supervised;  // if so, train-run shows all of it, once
  const std::string what = supervised ? error.what.substr(0, error.what.find('\n')) : error.what;
  std::fprintf(stderr, "trainrun: rank %d: the training loop threw %s: %s\n",
               session.info().rank_of_all, error.type.c_str(), what.c_str());
  if (!supervised && !error.stack.empty())
    std::fprintf(stderr, "thrown at, innermost first:\n%s", error.stack.c_str());
  session.send_error(error);
  return 1;
}

int call_loop(sdk::WorkerSession& session, const std::function<int(const Config&)>& loop) {
  try {
    return loop(session.info().config);
  } catch (const Stopped&) {
    return 0;
  } catch (const abi::__forced_unwind&) {  // pthread_exit, cancellation: not ours to catch
    throw;
  } catch (...) {
    return report_error(session, std::current_exception());
  }
}

/// Call the loop, and again for each run that follows in this process.
int call_loop_of_each_run(const std::function<int(const Config&)>& loop) {
  for (;;) {
    sdk::WorkerSession& session = sdk::current_session();
    const int code = call_loop(session, loop);
    if (code != 0) {
      session.finish();
      return code;
    }
    try {
      if (!sdk::begin_next_run()) return 0;
    } catch (const Failure& why) {
      std::fprintf(stderr, "trainrun: %s\n", why.what());
      return 1;
    }
  }
}

}  // namespace

int run_loop(int argc, char** argv, const std::function<int(const Config&)>& loop) {
  static std::atomic<bool> called = false;
  if (called.exchange(true)) {
    throw Failure("invalid_argument",
                  "train::run is called a second time in this process (call it once, from main)");
  }
  if (const std::string wrong = check_flags(argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "trainrun: %s\n", wrong.c_str());
    return kUsageError;
  }
  sdk::WorkerSession* session = nullptr;
  try {
    session = &sdk::current_session();
  } catch (const Failure& why) {
    std::fprintf(stderr, "trainrun: %s\n", why.what());
    return 1;
  }
  sdk::install_crash_reporter(session->info().rank_of_all);
  const bool ingest = !session->info().ingest.name.empty();
  if (!ingest) sdk::wait_for_debugger(session->info());
  if (ingest || sdk::validating()) {
    const int code = ingest ? sdk::run_ingest(*session) : sdk::run_validation(*session);
    session->finish();
    return code;
  }
  return call_loop_of_each_run(loop);
}

}  // namespace train::detail
