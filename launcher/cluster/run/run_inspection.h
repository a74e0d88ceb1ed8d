// Answers those who ask a running run for stacks, a profile, a checkpoint or a call of its workers
// (run_requests.h), and collects what the nodes have to say. Main thread only.
#pragma once

#include <functional>
#include <string>

#include "launcher/cluster/links/event_sink.h"
#include "launcher/cluster/run/call_collector.h"
#include "launcher/cluster/run/profile_collector.h"
#include "launcher/cluster/run/run_requests.h"
#include "launcher/cluster/run/stack_collector.h"
#include "launcher/core/run_controller.h"
#include "lib/net/scope.h"

namespace train {

class RunInspection {
 public:
  /// Commits use `disk`, too. All parts outlive this object.
  RunInspection(asio::any_io_executor executor, const Clock& clock, NodeLinks& links,
                asio::thread_pool& disk, FileSystem& files, const RunFolder& folder,
                const RunController& controller, Scope& scope, EventSink& events)
      : disk_(disk),
        folder_(folder.path()),
        controller_(controller),
        scope_(scope),
        events_(events),
        stacks_(executor, clock, links, disk, files, folder),
        profiles_(executor, clock, links, disk, files, folder),
        calls_(executor, clock, links) {}

  /// Look for requests in the run's folder from now on.
  void begin();
  /// Collect stacks as the controller orders it, and tell it what came of it.
  void collect(const CollectStacks& order);

  /// Call the workers, and pass what comes of it to `done`; not if the run ends before.
  void call(WorkerCall call, std::function<void(const CallAnswers&)> done);

  /// Answer a request for a checkpoint.
  void answered(const CheckpointAnswered& answered) {
    answer(answered.id, {.error = answered.error, .checkpoint = answered.number});
  }

  void attempt_ended(Attempt attempt) {
    stacks_.attempt_ended(attempt);
    profiles_.attempt_ended(attempt);
    calls_.attempt_ended(attempt);
  }
  void received(const Sender& from, const StacksTaken& message) { stacks_.received(from, message); }
  void received(const Sender& from, const ProfileTaken& message) {
    profiles_.received(from, message);
  }
  void received(const Sender& from, const WorkerAnswered& message) {
    calls_.received(from, message);
  }

 private:
  asio::awaitable<void> collect_stacks(CollectStacks order);
  asio::awaitable<void> collect_profile(std::string id, ProfileRequest request);
  asio::awaitable<void> collect_call(WorkerCall call, std::function<void(const CallAnswers&)> done);
  void answer(const std::string& request, RequestAnswer answer);

  asio::thread_pool& disk_;
  const std::string folder_;
  const RunController& controller_;
  Scope& scope_;
  EventSink& events_;
  StackCollector stacks_;
  ProfileCollector profiles_;
  CallCollector calls_;
};

}  // namespace train
