#include "sdk/client/debugger_wait.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "lib/base/host.h"
#include "lib/base/terminal_text.h"
#include "lib/base/text_file.h"
#include "sdk/client/progress.h"

namespace train::sdk {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(50);
constexpr int kLooksPerSign = 10;  // of life, so that a hang_timeout of a second does not end it

/// Return the process that traces this one, or 0.
int tracer() {
  constexpr std::string_view kKey = "\nTracerPid:\t";
  const std::string status = read_text("/proc/self/status");
  const std::size_t at = status.find(kKey);
  return at == status.npos ? 0 : std::atoi(status.c_str() + at + kKey.size());
}

}  // namespace

bool names_rank(std::string_view ranks, int rank) {
  if (ranks == "all") return true;
  while (!ranks.empty()) {
    const std::string_view part = ranks.substr(0, ranks.find(','));
    ranks.remove_prefix(std::min(part.size() + 1, ranks.size()));
    int first = -1, last = -1;
    const char* const end = part.data() + part.size();
    auto parsed = std::from_chars(part.data(), end, first);
    last = first;
    if (parsed.ec == std::errc() && parsed.ptr != end && *parsed.ptr == '-')
      parsed = std::from_chars(parsed.ptr + 1, end, last);
    if (parsed.ec == std::errc() && parsed.ptr == end && first <= rank && rank <= last) return true;
  }
  return false;
}

// A capture of stacks traces the process for a millisecond: only a tracer that stays is a debugger.
void wait_for_debugger(const WorkerInfo& info) {
  const char* ranks = std::getenv("TRAINRUN_WAIT_FOR_DEBUGGER");
  if (ranks == nullptr || !names_rank(ranks, info.rank_of_all)) return;
  // Any process of this user may attach, also where kernel.yama.ptrace_scope says that only
  // parents may.
  ::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  std::fprintf(
      stderr,
      "trainrun: rank %d waits for a debugger: train-run debug %s --rank %d (or on %s: gdb "
      "-p %d)\n",
      info.rank_of_all, shell_word(info.run_dir).c_str(), info.rank_of_all, host_name().c_str(),
      static_cast<int>(::getpid()));
  int before = 0;
  for (int looks = 0;; ++looks) {
    const int now = tracer();
    if (now != 0 && now == before) break;
    before = now;
    if (looks % kLooksPerSign == 0)  // a new text is a sign of life
      say_in_phase("waits for a debugger, sign " + std::to_string(looks / kLooksPerSign));
    std::this_thread::sleep_for(kLookEvery);
  }
  ::prctl(PR_SET_PTRACER, 0, 0, 0, 0);
  say_in_phase("");
}

}  // namespace train::sdk
