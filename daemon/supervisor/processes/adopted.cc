#include "daemon/supervisor/processes/adopted.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "lib/base/text_file.h"

namespace train {
namespace {

constexpr std::size_t kEnvironmentBytesMax = 8u << 20;  // more than execve() takes

std::set<pid_t>& own_children() {
  static std::set<pid_t> pids;
  return pids;
}

/// Adopted processes that we have killed and that have yet to end. Their memory, and with it their
/// environment, may be gone long before.
std::set<pid_t>& killed_children() {
  static std::set<pid_t> pids;
  return pids;
}

/// Reap an adopted process if it has ended. Return whether it had.
bool reap(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, WNOHANG) == 0 || WIFSTOPPED(status)) return false;
  killed_children().erase(pid);
  return true;
}

std::vector<pid_t> adopted_children() {
  std::ifstream children(fmt::format("/proc/self/task/{}/children", ::getpid()));
  std::vector<pid_t> adopted;
  pid_t pid = 0;
  while (children >> pid) {
    if (!own_children().contains(pid)) adopted.push_back(pid);
  }
  return adopted;
}

/// Return the variables of a process, each between NUL characters.
std::string environment_of(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/environ", pid), std::ios::binary);
  // A process can declare all of its memory to be its environment (prctl(2), PR_SET_MM).
  std::string all(1, '\0');
  std::array<char, 65536> piece{};
  while (all.size() < kEnvironmentBytesMax && file) {
    file.read(piece.data(), piece.size());
    all.append(piece.data(), static_cast<std::size_t>(file.gcount()));
  }
  return all;
}

bool has_variable(const std::string& environment, const std::string& variable) {
  return environment.find('\0' + variable + '\0') != std::string::npos;
}

}  // namespace

void note_own_child(pid_t pid) { own_children().insert(pid); }
void forget_own_child(pid_t pid) { own_children().erase(pid); }

asio::awaitable<void> reap_adopted(asio::any_io_executor executor) {
  asio::signal_set ended(executor, SIGCHLD);
  for (;;) {
    for (const pid_t pid : adopted_children()) reap(pid);
    const auto [error, number] = co_await ended.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
  }
}

namespace {

constexpr int kLooks = 25;  // at processes without an environment, kLookAgainAfter apart
constexpr auto kLookAgainAfter = std::chrono::milliseconds(1);

int kill_all(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    ::kill(pid, SIGKILL);
    if (!reap(pid)) killed_children().insert(pid);
  }
  return static_cast<int>(pids.size());
}

/// Return whether the process is about to end: its memory is gone already, its children not yet
/// adopted. PF_EXITING in field 9 of proc_pid_stat(5); field 2 may hold anything, in parentheses.
bool is_exiting(pid_t pid) {
  constexpr unsigned long kExiting = 0x4;
  const std::string stat = read_text(fmt::format("/proc/{}/stat", pid));
  const auto name_end = stat.rfind(')');
  if (name_end == std::string::npos) return false;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 9; ++field) fields >> skipped;
  unsigned long flags = 0;
  return (fields >> flags) && (flags & kExiting) != 0;
}

/// Kill the adopted processes whose environment matches. In the middle of execve() a process has
/// none: look at such processes again for a while, all together. One that ends has none either, and
/// counts, because what it leaves comes to us afterwards.
template <class Matches>
int kill_adopted_if_environment(const Matches& matches) {
  std::vector<pid_t> pids = adopted_children();
  int killed = static_cast<int>(
      std::erase_if(pids, [](pid_t pid) { return killed_children().contains(pid) && !reap(pid); }));
  for (int look = 0; look < kLooks && !pids.empty(); ++look) {
    if (look > 0) std::this_thread::sleep_for(kLookAgainAfter);
    std::vector<pid_t> matching, without;
    for (const pid_t pid : pids) {
      const std::string environment = environment_of(pid);
      if (matches(environment))
        matching.push_back(pid);
      else if (environment.size() <= 1)
        without.push_back(pid);
    }
    killed += kill_all(matching);
    killed += static_cast<int>(std::erase_if(without, reap));
    pids = std::move(without);
  }
  return killed + static_cast<int>(std::count_if(pids.begin(), pids.end(), is_exiting));
}

}  // namespace

int kill_adopted(const std::vector<std::string>& variables) {
  if (variables.empty()) return kill_all(adopted_children());
  return kill_adopted_if_environment([&](const std::string& environment) {
    return std::all_of(variables.begin(), variables.end(), [&](const std::string& variable) {
      return has_variable(environment, variable);
    });
  });
}

int kill_adopted_with_any(const std::set<std::string>& variables) {
  return kill_adopted_if_environment([&](const std::string& environment) {
    return std::any_of(variables.begin(), variables.end(), [&](const std::string& variable) {
      return has_variable(environment, variable);
    });
  });
}

int kill_adopted_of(uid_t uid) {
  std::vector<pid_t> pids = adopted_children();
  std::erase_if(pids, [uid](pid_t pid) {
    struct stat found {};
    return ::stat(fmt::format("/proc/{}", pid).c_str(), &found) != 0 || found.st_uid != uid;
  });
  return kill_all(pids);
}

}  // namespace train
