#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <optional>

#include "lib/base/thread.h"
#include "lib/profile/profile_builder.h"
#include "lib/profile/sampling/samplers.h"
#include "lib/stacks/proc_files.h"

namespace train {
namespace {

constexpr std::size_t kStackBytes = 4096;  // of a reader that copies none
constexpr std::size_t kEventsMax = 512;    // threads that run at the same time

TimePoint now() { return std::chrono::steady_clock::now(); }

class PerfSampler {
 public:
  PerfSampler(const SamplingOrder& order, std::shared_ptr<Sampling> to)
      : order_(order), to_(std::move(to)), processes_(order.processes, to_->queue, kStackBytes) {}

  /// Find whether the kernel lets us: with the main thread of the rank's program.
  Result<Unit> begin() {
    if (!processes_.update()) return Error{Errc::NotFound, "the worker has ended"};
    for (auto& [pid, process] : processes_.all()) {
      auto event = PerfEvent::open(pid, order_.perf_open);
      if (!event && event.error().code == Errc::Permission) return event.error();
      if (event) keep(pid, pid, std::move(*event));
    }
    return Unit{};
  }

  void run() {
    const TimePoint began = now(), until = began + order_.time;
    bool alive = true;
    for (TimePoint list_at = began; alive && now() < until;) {
      if (now() >= list_at) {
        alive = processes_.update();
        watch_new_threads();
        list_at = now() + kListEvery;
      }
      wait_for_samples(std::min(list_at, until));
    }
    drain_all();
    processes_.update();  // what they have used until now
    processes_.flush();
    ProfileFacts facts{.engine = "perf_event",
                       .lasted = now() - began,
                       .period = Duration(seconds{1}) / static_cast<std::int64_t>(kPerfHz),
                       .cpu_time = processes_.cpu_time(),
                       .lost = counts_.lost + processes_.lost()};
    if (unwatched_) add_note(facts, "some threads were not sampled: " + *unwatched_);
    if (without_kernel_)
      add_note(facts, fmt::format("time in the kernel is not sampled: kernel.perf_event_paranoid "
                                  "is {}; 1 or less, or CAP_PERFMON, allows it",
                                  perf_event_paranoid()));
    note_unsampled_time(facts, processes_.samples() + counts_.lost, !without_kernel_);
    to_->finish(std::move(facts));
  }

 private:
  struct Event {
    pid_t pid;
    PerfEvent event;
    bool ended = false;
  };

  /// Open events for threads that run: the many that only wait cost nothing.
  void watch_new_threads() {
    for (auto& [pid, process] : processes_.all()) {
      for (auto& [tid, thread] : process.threads) {
        const std::uint64_t run_ns = ProfiledProcesses::run_ns(pid, tid).value_or(0);
        const bool moved = run_ns != std::exchange(thread.run_ns, run_ns);
        const bool was_new = std::exchange(thread.is_new, false);
        const bool runs = was_new ? thread_state(pid, tid) == 'R' : moved;
        if (runs && !events_.contains(tid)) watch(pid, tid);
      }
    }
  }

  void watch(pid_t pid, pid_t tid) {
    if (events_.size() >= kEventsMax) {
      unwatched_ = fmt::format("more than {} ran", kEventsMax);
      return;
    }
    auto event = PerfEvent::open(tid, order_.perf_open);
    if (event)
      keep(pid, tid, std::move(*event));
    else if (event.error().code != Errc::NotFound)
      unwatched_ = event.error().describe();
  }

  void keep(pid_t pid, pid_t tid, PerfEvent event) {
    without_kernel_ |= !event.samples_kernel();
    events_.emplace(tid, Event{pid, std::move(event)});
  }

  void wait_for_samples(TimePoint until) {
    std::vector<pollfd> files;
    for (const auto& [tid, event] : events_) files.push_back({event.event.fd(), POLLIN, 0});
    const auto left = std::chrono::ceil<milliseconds>(until - now());
    const int timeout = static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 100));
    if (::poll(files.data(), files.size(), timeout) <= 0) return;
    auto file = files.begin();
    for (auto entry = events_.begin(); entry != events_.end(); ++file) {
      if (file->revents != 0) drain(entry->second);
      // The event of an ended thread would wake us for ever.
      const bool ended = (file->revents & (POLLHUP | POLLERR)) != 0;
      entry = ended ? events_.erase(entry) : std::next(entry);
    }
  }

  void drain_all() {
    for (auto& [tid, event] : events_) drain(event);
  }

  void drain(Event& from) {
    const auto process = processes_.all().find(from.pid);
    from.event.drain(
        [&](ThreadCapture thread) {
          if (process == processes_.all().end()) return;
          thread.facts.state = 'R';
          processes_.add(process->second, std::move(thread), 1);
        },
        counts_);
  }

  const SamplingOrder order_;
  const std::shared_ptr<Sampling> to_;
  ProfiledProcesses processes_;
  std::map<pid_t, Event> events_;  // by thread
  PerfCounts counts_;
  bool without_kernel_ = false;           // of some threads
  std::optional<std::string> unwatched_;  // why
};

}  // namespace

Result<Unit> begin_perf_sampling(const SamplingOrder& order, const std::shared_ptr<Sampling>& to) {
  const auto sampler = std::make_shared<PerfSampler>(order, to);
  TRY_VOID(sampler->begin());
  return start_unjoined_thread("profile", [sampler] { sampler->run(); });
}

}  // namespace train
