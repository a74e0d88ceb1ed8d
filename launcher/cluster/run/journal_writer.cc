#include "launcher/cluster/run/journal_writer.h"

#include <optional>
#include <utility>

#include "lib/net/blocking.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kRetryAfter = seconds(1);

}  // namespace

JournalWriter::JournalWriter(asio::any_io_executor executor, Journal& journal, const Clock& clock,
                             UserMessages& messages)
    : journal_(journal), clock_(clock), messages_(messages), changed_(executor) {}

void JournalWriter::remember(boost::json::object event) {
  if (const auto fits = check_event(event); !fits) {
    messages_.warn("an event was not written to the journal: " + fits.error().describe());
    return;
  }
  if (fenced_) return;
  queue_.push_back(std::move(event));
  ++asked_;
  changed_.notify();
}

Task<Unit> JournalWriter::written() {
  const std::uint64_t wanted = asked_;
  while (tried_ < wanted) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  co_return Unit{};
}

asio::awaitable<void> JournalWriter::run() {
  bool failing = false;
  for (;;) {
    std::erase_if(holds_, [](const auto& reached) { return reached(); });
    if (queue_.empty() || !holds_.empty()) {
      const auto woken = co_await changed_.wait_until(TimePoint::max());
      if (!woken) co_return;
      continue;
    }
    const std::vector<boost::json::object> events = std::exchange(queue_, {});
    const std::uint64_t until = asked_;
    auto writing = run_on<Unit>(
        disk_, [&, time = format_utc(clock_.wall())] { return journal_.append(events, time); });
    const auto written = co_await std::move(writing);
    tried_ = until;
    changed_.notify();
    const bool failed_before = std::exchange(failing, !written);
    if (written) continue;
    const bool replaced = written.error().code == Errc::Fenced;
    if (!failed_before)
      messages_.warn("the journal cannot be written: " + written.error().describe() +
                     (replaced ? "; another train-run has taken this run over"
                               : "; the run continues, but cannot be resumed"));
    if (replaced) {
      fenced_ = true;
      tried_ = asked_;  // including what has arrived since
      changed_.notify();
      co_return;
    }
    // These events go first once the disk accepts writes again.
    queue_.insert(queue_.begin(), events.begin(), events.end());
    const auto woken = co_await pause_for(kRetryAfter);
    if (!woken) co_return;
  }
}

}  // namespace train
