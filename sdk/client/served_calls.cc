#include "sdk/client/served_calls.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "lib/base/thread.h"
#include "lib/model/worker_progress.h"
#include "sdk/client/crash_report.h"
#include "sdk/client/progress.h"
#include "sdk/client/worker_session.h"
#include "sdk/include/train/error.h"

namespace train::sdk {
namespace {

thread_local bool calling = false;

std::string error_text(const std::exception_ptr& thrown) {
  const UserError error = describe_exception(thrown);
  return error.type.empty() ? error.what : error.type + ": " + error.what;
}

}  // namespace

ServedFunctions& ServedFunctions::of_process() {
  static ServedFunctions& functions = *[] {
    at_run_end([] { of_process().forget_those_of_run(); });
    return new ServedFunctions;  // threads may outlive main()
  }();
  return functions;
}

void ServedFunctions::forget_those_of_run() {
  const std::lock_guard lock(mutex_);
  std::erase_if(functions_, [](const auto& served) { return served.second.of_run; });
}

void ServedFunctions::serve(const std::string& name, ServedFunction function) {
  if (!is_call_name(name)) {
    throw Failure("invalid_argument",
                  fmt::format("serve: '{}' cannot be a function's name (up to {} letters, digits "
                              "and _-.:/)",
                              name.substr(0, kCallNameBytesMax), kCallNameBytesMax));
  }
  if (!function.function)
    throw Failure("invalid_argument", fmt::format("serve: the function '{}' is empty", name));
  function.of_run = existing_session() != nullptr;
  const std::lock_guard lock(mutex_);
  functions_[name] = std::move(function);
}

ServedFunction ServedFunctions::find(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(name);
  return found == functions_.end() ? ServedFunction{} : found->second;
}

std::string ServedFunctions::names() const {
  const std::lock_guard lock(mutex_);
  std::string names;
  for (const auto& [name, function] : functions_) names += (names.empty() ? "" : ", ") + name;
  return names;
}

void ServedCalls::add(Call call) {
  const bool at_once = functions_.find(call.name).when == ServeWhen::AtOnce;
  std::unique_lock lock(mutex_);
  if (closed_) {
    if (why_.empty()) return;
    Answer refusal{.request = call.request, .error = why_, .kind = kCallLost};
    lock.unlock();
    return answer_(std::move(refusal));
  }
  (at_once ? at_once_ : for_loop_).push_back(std::move(call));
  if (!at_once) {
    waiting_ = true;
    return;
  }
  if (!thread_.joinable()) {
    try {
      thread_ = start_thread("trainrun-calls", [this] { run_at_once(); });
    } catch (const std::system_error& why) {
      Answer refusal{.request = at_once_.back().request, .error = why.what()};
      at_once_.pop_back();
      lock.unlock();
      return answer_(std::move(refusal));
    }
  }
  changed_.notify_all();
}

bool ServedCalls::in_call() { return calling; }

std::size_t ServedCalls::run() {
  if (calling) return 0;
  std::size_t count = 0;
  for (;; ++count) {
    Call next;
    {
      const std::lock_guard lock(mutex_);
      waiting_ = !for_loop_.empty();
      if (for_loop_.empty()) return count;
      next = std::move(for_loop_.front());
      for_loop_.pop_front();
    }
    const InPhase running(Phase::Own, next.name);
    try {
      answer_(call(next));
    } catch (const Stopped& stopped) {
      answer_({.request = next.request, .error = stopped.what(), .kind = kCallThrown});
      throw;
    }
  }
}

ServedCalls::Answer ServedCalls::call(const Call& call) const {
  Answer answer{.request = call.request};
  const ServedFunction served = functions_.find(call.name);
  if (!served.function) {
    const std::string names = functions_.names();
    answer.error = names.empty()
                       ? "its program serves no functions"
                       : fmt::format("its program serves no '{}'; it serves {}", call.name, names);
    return answer;
  }
  struct InCall {
    InCall() { calling = true; }
    ~InCall() { calling = false; }
  } inside;
  try {
    answer.result = call_json(served.function(parse_json(call.argument)));
  } catch (const Stopped&) {
    throw;
  } catch (const Failure& why) {  // ours, or what another language has thrown: the text says all
    answer.error = why.what();
    answer.kind = kCallThrown;
  } catch (...) {
    answer.error = error_text(std::current_exception());
    answer.kind = kCallThrown;
  }
  return answer;
}

void ServedCalls::run_at_once() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    if (at_once_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const Call next = std::move(at_once_.front());
    at_once_.pop_front();
    lock.unlock();
    Answer answer;
    try {
      answer = call(next);
    } catch (const Stopped& stopped) {
      answer = {.request = next.request, .error = stopped.what(), .kind = kCallThrown};
    }
    answer_(std::move(answer));
    lock.lock();
  }
}

void ServedCalls::close(const std::string& why) {
  std::deque<Call> refused;
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    why_ = why;
    refused.swap(for_loop_);
    refused.insert(refused.end(), at_once_.begin(), at_once_.end());
    at_once_.clear();
    waiting_ = false;
    thread.swap(thread_);
  }
  changed_.notify_all();
  if (!why.empty())
    for (const Call& call : refused)
      answer_({.request = call.request, .error = why, .kind = kCallLost});
  if (!thread.joinable()) return;
  if (thread.get_id() != std::this_thread::get_id()) return thread.join();
  const std::lock_guard lock(mutex_);  // a function that runs at once has ended the session: later
  thread.swap(thread_);
}

}  // namespace train::sdk
