#include "launcher/cluster/run/stop_requests.h"

#include <signal.h>
#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <filesystem>
#include <string_view>
#include <utility>

#include "lib/base/time.h"
#include "lib/net/within.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

constexpr Duration kStopFileEvery = milliseconds(500);

}  // namespace

void StopRequests::begin(Scope& scope) {
  // Catch them from now on, not only once the thread runs: a Ctrl-C in between would end the
  // process.
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) caught_.add(signal);
  scope.spawn("stop file", watch_stop_file());
  signal_scope_.spawn("signals", handle_signals());
  thread_ = std::thread([this] { signals_.run(); });  // it has our signal mask, so it takes signals
}

asio::awaitable<void> StopRequests::handle_signals() {
  bool warned = false;
  for (int interrupts = 0;;) {
    const auto [error, number] = co_await caught_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    if (number == SIGUSR1) {  // Slurm's early warning (sbatch --signal): no hurry
      if (!std::exchange(warned, true)) ask(StopAsked{StopKind::Terminate, "SIGUSR1"});
      continue;
    }
    if (++interrupts > 2) ::_exit(128 + number);  // even the quick way hangs
    if (number == SIGINT)
      ask(StopAsked{StopKind::Interrupt, "Ctrl-C"});
    else
      ask(StopAsked{StopKind::Terminate, number == SIGTERM ? "SIGTERM" : "SIGHUP"});
    if (interrupts == 2) signal_scope_.spawn("hurry", end_once_it_hangs(128 + number));
  }
}

void StopRequests::ask(StopAsked request) {
  asio::post(executor_, [this, request = std::move(request)] { asked_(request); });
}

asio::awaitable<void> StopRequests::end_once_it_hangs(int code) {
  for (int round = 1; answered_ == round - 1; ++round) {
    asio::post(executor_, [this, round] { answered_ = round; });
    const auto waited = co_await pause_for(kAnswerMax);
    if (waited.has_error()) co_return;
  }
  constexpr std::string_view kWhy =
      "train-run: exiting immediately: a call to the run's storage is stuck\n";
  (void)!::write(STDERR_FILENO, kWhy.data(), kWhy.size());
  ::_exit(code);
}

// Watch for the request that `train-run stop` leaves in the run's folder, on any machine that can
// access the storage.
asio::awaitable<void> StopRequests::watch_stop_file() {
  const RunFolder folder(folder_);
  const std::string path = folder.stop_request();
  std::error_code ec;
  for (;;) {
    if (std::filesystem::exists(path, ec)) {
      std::filesystem::rename(path, folder.stop_request_taken(), ec);
      if (ec) std::filesystem::remove(path, ec);
      asked_(StopAsked{StopKind::Command, "train-run stop"});
    }
    const auto woken = co_await pause_for(kStopFileEvery);
    if (!woken) co_return;
  }
}

}  // namespace train
