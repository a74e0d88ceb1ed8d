#include "sdk/client/crash_report.h"

#include <cxxabi.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

#include "sdk/client/crash_record.h"
#include "sdk/client/throw_trace.h"
#include "sdk/client/worker_session.h"

namespace train::sdk {
namespace {

constexpr int kCrashFramesMax = 64;
constexpr auto kFlushWithin = std::chrono::seconds(2);
// After a stack overflow, the thread's own stack has no room for the handler.
constexpr std::size_t kHandlerStackBytes = 64 << 10;

struct SignalName {
  int number;
  const char* text;
};
constexpr SignalName kFatalSignals[] = {{SIGSEGV, "SIGSEGV"},
                                        {SIGABRT, "SIGABRT"},
                                        {SIGBUS, "SIGBUS"},
                                        {SIGFPE, "SIGFPE"},
                                        {SIGILL, "SIGILL"}};

char rank_text[16] = "?";  // read by the signal handler
// Set after an exception with its stack was reported, which says more than that of the abort() that
// follows.
volatile sig_atomic_t told_of_exception = 0;
std::terminate_handler previous_terminate = nullptr;

void say(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

/// Let the signal kill the process as soon as the handler returns, with the context of the crash.
void die_of(int number) {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(number, &action, nullptr);
  ::raise(number);
}

/// Another thread has crashed before and is telling: it will end the process.
void wait_for_the_first_crash() {
  const timespec enough{.tv_sec = 5, .tv_nsec = 0};
  ::nanosleep(&enough, nullptr);
}

// Makes only async-signal-safe calls; backtrace() is one once the unwinder is loaded
// (watch_throws). The record comes first, since backtrace() may crash in its turn where the stack
// is damaged.
void on_fatal_signal(int number, siginfo_t* info, void* context) {
  static std::atomic<int> crashed = 0;  // the thread
  int nobody = 0;
  const auto self = static_cast<int>(::syscall(SYS_gettid));
  if (!crashed.compare_exchange_strong(nobody, self)) {
    if (nobody != self) wait_for_the_first_crash();  // else this handler has crashed
    return die_of(number);
  }
  const bool recorded = told_of_exception == 0 && record_crash(*info, context);
  const char* name = "a signal";
  for (const SignalName& known : kFatalSignals) {
    if (known.number == number) name = known.text;
  }
  say("trainrun: rank ");
  say(rank_text);
  say(" was hit by ");
  say(name);
  if (recorded || told_of_exception != 0) {  // the supervisor or the exception says more
    say("\n");
    return die_of(number);
  }
  say("; native stack, innermost first:\n");
  void* frames[kCrashFramesMax];
  ::backtrace_symbols_fd(frames, ::backtrace(frames, kCrashFramesMax), STDERR_FILENO);
  die_of(number);
}

[[noreturn]] void on_terminate() {
  if (const std::exception_ptr exception = std::current_exception()) {
    const UserError error = describe_exception(exception);
    WorkerSession* session = existing_session();
    // If supervised, train-run shows the stack.
    const bool supervised = session != nullptr && session->info().supervised;
    std::fprintf(
        stderr, "trainrun: rank %s: an exception left a thread or a noexcept function: %s: %s\n%s",
        rank_text, error.type.c_str(), error.what.c_str(), supervised ? "" : error.stack.c_str());
    told_of_exception = error.stack.empty() ? 0 : 1;
    if (session != nullptr) {
      session->send_error(error);
      session->flush(kFlushWithin);
    }
  }
  if (previous_terminate != nullptr) previous_terminate();
  std::abort();
}

/// Cut off the backtrace at the end of LibTorch's what(), as its what_without_backtrace() does, but
/// without LibTorch.
void cut_backtrace(UserError& error) {
  if (error.type.starts_with("c10::"))
    error.what.resize(std::min(error.what.size(), error.what.find("\nException raised from ")));
}

}  // namespace

void install_crash_reporter(int rank) {
  std::snprintf(rank_text, sizeof rank_text, "%d", rank);
  watch_throws();
  previous_terminate = std::set_terminate(on_terminate);
  const char* wanted = std::getenv("TRAINRUN_CRASH_HANDLER");
  if (wanted != nullptr && std::string_view(wanted) == "0") return;
  static char handler_stack[kHandlerStackBytes];
  stack_t stack{};
  if (::sigaltstack(nullptr, &stack) == 0 && (stack.ss_flags & SS_DISABLE) != 0) {
    stack = {.ss_sp = handler_stack, .ss_flags = 0, .ss_size = sizeof handler_stack};
    ::sigaltstack(&stack, nullptr);
  }
  for (const SignalName& fatal : kFatalSignals) {
    struct sigaction action {};
    if (::sigaction(fatal.number, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) continue;
    action = {};
    action.sa_sigaction = on_fatal_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigaction(fatal.number, &action, nullptr);
  }
}

UserError describe_exception(const std::exception_ptr& exception) {
  UserError error;
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    error.what = e.what();
  } catch (const std::string& text) {
    error.what = text;
  } catch (const char* text) {
    error.what = text;
  } catch (...) {
    error.what = "an exception other than a std::exception";
  }
  const std::type_info* type = exception ? exception.__cxa_exception_type() : nullptr;
  if (type != nullptr) {
    int status = 0;
    char* name = abi::__cxa_demangle(type->name(), nullptr, nullptr, &status);
    error.type = status == 0 ? name : type->name();
    std::free(name);
  }
  cut_backtrace(error);
  error.stack = throw_stack(exception);
  return error;
}

}  // namespace train::sdk
