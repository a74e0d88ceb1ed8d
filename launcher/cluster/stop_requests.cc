#include "launcher/cluster/stop_requests.h"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <utility>

#include "lib/base/time.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kStopFileEvery = milliseconds(500);

}  // namespace

void StopRequests::begin(Scope& scope) {
  scope.spawn("signals", handle_signals());
  scope.spawn("stop file", watch_stop_file());
}

asio::awaitable<void> StopRequests::handle_signals() {
  asio::signal_set signals(executor_, SIGINT, SIGTERM, SIGHUP);
  signals.add(SIGUSR1);  // Slurm's warning of an end to come (sbatch --signal): it hurries nobody
  bool warned = false;
  int interrupts = 0;
  for (;;) {
    const auto [error, number] = co_await signals.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    if (number == SIGUSR1) {
      if (!std::exchange(warned, true)) asked_(StopAsked{StopKind::Terminate, "SIGUSR1"});
      continue;
    }
    if (++interrupts > 2) ::_exit(128 + number);  // even the quick way hangs
    if (number == SIGINT)
      asked_(StopAsked{StopKind::Interrupt, "Ctrl-C"});
    else
      asked_(StopAsked{StopKind::Terminate, number == SIGTERM ? "SIGTERM" : "SIGHUP"});
  }
}

// `train-run stop` on any machine that sees the storage leaves its request in the run's folder.
asio::awaitable<void> StopRequests::watch_stop_file() {
  const std::string path = folder_ + "/.stop";
  std::error_code ec;
  std::filesystem::remove(path, ec);  // of an earlier launcher
  for (;;) {
    if (!co_await pause_for(kStopFileEvery)) co_return;
    if (!std::filesystem::exists(path, ec)) continue;
    std::filesystem::remove(path, ec);
    asked_(StopAsked{StopKind::Command, "train-run stop"});
  }
}

}  // namespace train
