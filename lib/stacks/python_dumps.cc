#include "lib/stacks/python_dumps.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "lib/base/thread.h"
#include "lib/stacks/py_spy.h"
#include "lib/stacks/python_frames.h"

namespace train {
namespace {

constexpr Duration kMargin = seconds{2};  // of the deadline, to end a program that does not

using Threads = Result<std::vector<PythonThread>>;

/// Return the threads of a process in Python; none if it does not run Python.
Threads dump(pid_t pid, TimePoint deadline) {
  const auto text = ask_py_spy({.pid = pid,
                                .arguments = {"dump", "--nonblocking", "--json"},
                                .bytes_max = kPythonDumpBytesMax},
                               deadline);
  if (!text) return text.error();
  if (!*text) return std::vector<PythonThread>{};
  static std::mutex parsing;  // one at a time: parsed, a text takes ten times its size
  const std::lock_guard<std::mutex> lock(parsing);
  return parse_python_threads(**text);
}

}  // namespace

struct PythonDumps::Shared {
  Shared(std::vector<pid_t> of, TimePoint until)
      : pids(std::move(of)), deadline(until), answers(pids.size()) {}

  /// Answer one after another, until none is left or nobody waits any more.
  void run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (next < pids.size() && std::chrono::steady_clock::now() < deadline) {
      const std::size_t mine = next++;
      lock.unlock();
      Threads found = dump(
          pids[mine], std::min(deadline, std::chrono::steady_clock::now() + kPythonDumpWithin));
      lock.lock();
      answers[mine] = std::move(found);
      ++answered;
    }
    --lanes;
    changed.notify_all();
  }

  bool complete() const { return answered == pids.size() || lanes == 0; }

  /// Start a thread that answers.
  static void start_lane(const std::shared_ptr<Shared>& shared) {
    const auto started = start_unjoined_thread("py-spies", [shared] { shared->run(); });
    const std::lock_guard<std::mutex> lock(shared->mutex);
    if (!started) --shared->lanes;
  }

  const std::vector<pid_t> pids;
  const TimePoint deadline;
  std::mutex mutex{};
  std::condition_variable changed{};
  std::size_t next = 0, answered = 0, lanes = 0;
  std::vector<std::optional<Threads>> answers;
};

PythonDumps::PythonDumps(std::vector<pid_t> pids, TimePoint deadline)
    : shared_(std::make_shared<Shared>(std::move(pids), deadline - kMargin)) {
  const std::size_t lanes = std::min(shared_->pids.size(), kPythonDumpsAtATime);
  shared_->lanes = lanes;  // before any of them ends
  for (std::size_t i = 0; i < lanes; ++i) Shared::start_lane(shared_);
}

void PythonDumps::add_to(std::vector<ProcessStacks>& stacks) {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  shared_->changed.wait_until(lock, shared_->deadline + kMargin,
                              [this] { return shared_->complete(); });
  for (std::size_t i = 0; i < std::min(stacks.size(), shared_->answers.size()); ++i) {
    const auto& answer = shared_->answers[i];
    if (answer && *answer)
      add_python_frames(stacks[i], **answer);
    else if (answer)
      stacks[i].notes.push_back("no Python frames: " + answer->error().describe());
    else if (stacks[i].executable.find("python") != std::string::npos)
      stacks[i].notes.push_back("no Python frames: no time was left for py-spy");
  }
}

}  // namespace train
