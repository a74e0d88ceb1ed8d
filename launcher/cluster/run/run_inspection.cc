#include "launcher/cluster/run/run_inspection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>

namespace train {
namespace {

const std::string kRequested = "request-";  // then its id: why stacks are collected

}  // namespace

void RunInspection::begin() {
  RequestHandlers requests{
      .stacks =
          [this](const std::string& id, StacksRequest request) {
            events_.feed(StacksAsked{kRequested + id, std::move(request.ranks)});
          },
      .profile =
          [this](const std::string& id, Result<ProfileRequest> request) {
            if (request)
              scope_.spawn("profile", collect_profile(id, *request));
            else
              answer(id, {.error = request.error().describe()});
          },
      .checkpoint = [this](const std::string& id) { events_.feed(CheckpointAsked{id}); },
      .call =
          [this](const std::string& id, Result<WorkerCall> asked) {
            if (!asked) return answer(id, {.error = asked.error().describe()});
            call(std::move(*asked),
                 [this, id](const CallAnswers& answers) { answer(id, {.called = answers}); });
          }};
  scope_.spawn("requests", watch_requests(folder_, std::move(requests)));
}

void RunInspection::collect(const CollectStacks& order) {
  scope_.spawn("stacks", collect_stacks(order));
}

asio::awaitable<void> RunInspection::collect_stacks(CollectStacks order) {
  const auto collected = co_await stacks_.collect(std::move(order));
  if (!collected) co_return;
  if (collected->why.starts_with(kRequested))
    answer(collected->why.substr(kRequested.size()),
           {.path = collected->path, .error = collected->error});
  events_.feed(*collected);
}

asio::awaitable<void> RunInspection::collect_profile(std::string id, ProfileRequest request) {
  const Attempt attempt = controller_.attempt();
  const auto node = controller_.node_of(attempt, request.rank);
  if (!node) {
    answer(id, {.error = fmt::format("rank {} has no worker now", request.rank.value)});
    co_return;
  }
  auto collecting = profiles_.collect(attempt, *node, request);
  const auto collected = co_await std::move(collecting);
  if (collected) answer(id, *collected);
}

void RunInspection::call(WorkerCall call, std::function<void(const CallAnswers&)> done) {
  scope_.spawn("call", collect_call(std::move(call), std::move(done)));
}

asio::awaitable<void> RunInspection::collect_call(WorkerCall call,
                                                  std::function<void(const CallAnswers&)> done) {
  const Attempt attempt = controller_.attempt();
  CallCollector::Places places;
  for (const Rank rank : call.ranks) places[rank] = controller_.node_of(attempt, rank);
  // Functions are those of the program that trains; commands run beside any worker.
  const int all = call.command.empty() ? controller_.world_size() : controller_.workers();
  if (call.ranks.empty())
    for (std::int32_t rank = 0; rank < all; ++rank)
      places[Rank{rank}] = controller_.node_of(attempt, Rank{rank});
  auto calling = calls_.call(attempt, std::move(places), std::move(call));
  const auto answers = co_await std::move(calling);
  if (answers) done(*answers);
}

void RunInspection::answer(const std::string& request, RequestAnswer answer) {
  if (answer.path.starts_with(folder_ + "/")) answer.path.erase(0, folder_.size() + 1);
  asio::post(disk_, [folder = folder_, request, answer = std::move(answer)] {
    (void)answer_request(folder, request, answer);  // else whoever asked waits in vain, and says so
  });
}

}  // namespace train
