#include "daemon/supervisor/workers/worker_commands.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "lib/base/secrets.h"
#include "lib/base/utf8.h"
#include "lib/model/worker_call.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr int kAtATime = 16;  // of a node; others wait

/// The first bytes that a command wrote to one of its pipes.
struct Written {
  std::string text = {};
  std::uint64_t bytes = 0;

  void add(std::string_view data) {
    bytes += data.size();
    text.append(data.substr(0, kCommandOutputBytesMax - text.size()));
  }
  /// What was cut may end within a secret: then keep whole lines only, if there are any.
  std::string redacted_text() const {
    std::string_view kept = text;
    if (bytes > kept.size()) kept = kept.substr(0, kept.rfind('\n') + 1);
    return utf8_text(redacted(kept.empty() ? std::string_view(text) : kept));
  }
};

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : std::to_string(number);
}

/// Return the answer. As JSON, a text may have up to six times its bytes, so less of it may fit.
std::string answer_of(const CommandRunner::End& end, const Written& out, const Written& err) {
  const std::string out_text = out.redacted_text(), err_text = err.redacted_text();
  for (std::size_t most = kCommandOutputBytesMax;; most /= 2) {
    json::object answer;
    if (end.status.signaled)
      answer["signal"] = signal_name(end.status.status);
    else
      answer["exit_code"] = end.status.status;
    if (end.late) answer["timed_out"] = true;
    answer["stdout"] = utf8_text(out_text, most);
    answer["stderr"] = utf8_text(err_text, most);
    if (std::max(out_text.size(), err_text.size()) > most || out.bytes > out.text.size() ||
        err.bytes > err.text.size())
      answer["cut"] = true;
    std::string text = json::serialize(answer);
    if (text.size() <= kCallValueBytesMax) return text;
  }
}

}  // namespace

void WorkerCommands::run(const CallWorkers& order) {
  const auto begin = [&](Rank rank) { parts_.scope.spawn("command", run_for(rank, order)); };
  if (order.ranks.empty())
    for (const auto& [rank, slot] : parts_.slots) begin(rank);
  for (const std::int32_t rank : order.ranks) begin(Rank{rank});
}

asio::awaitable<void> WorkerCommands::run_for(Rank rank, CallWorkers order) {
  const auto found = parts_.slots.find(rank);
  if (found == parts_.slots.end())
    co_return refuse(rank, order.request, kCallRefused, "the node has no such rank");
  while (running_ >= kAtATime && !ended_) {
    const auto woken = co_await changed_.wait_until(TimePoint::max());
    if (woken.has_error()) co_return;
  }
  const WorkerSlot& slot = found->second;
  if (ended_ || slot.pid <= 0 || slot.exit || !parts_.orders.start)
    co_return refuse(rank, order.request, kCallLost, "it has no worker now");
  CommandRunner::Order command{.name = "exec",
                               .argv = std::move(order.command),
                               .working_dir = parts_.orders.start->working_dir,
                               .env = parts_.environment(slot),
                               .limit = milliseconds(order.within_ms),
                               .as_worker = true,
                               .role = slot.ranks.role,
                               .binding = parts_.orders.binding_of(rank)};
  // What is the worker's alone: its connection, where the cause of its end is read, and its place
  // in an MPI program.
  for (const char* name :
       {"TRAINRUN_SOCKET", "TORCHELASTIC_ERROR_FILE", "OMPI_MCA_orte_local_daemon_uri"})
    command.env.erase(name);
  std::erase_if(command.env, [](const auto& variable) {
    return variable.first.starts_with("PMI_") || variable.first.starts_with("PMIX_");
  });
  command.env["TRAINRUN_WORKER_PID"] = std::to_string(slot.program > 0 ? slot.program : slot.pid);
  Written out, err;
  command.output = [&](std::string_view data, bool of_errors) {
    (of_errors ? err : out).add(data);
  };
  ++running_;
  auto running = commands_.run(std::move(command));
  const auto end = co_await std::move(running);
  --running_;
  changed_.notify();
  if (end.has_error()) co_return refuse(rank, order.request, kCallRefused, end.error().describe());
  WorkerAnswered answer{.rank = rank.value, .request = order.request};
  answer.result = answer_of(*end, out, err);
  parts_.uplink.send(answer);
}

void WorkerCommands::refuse(Rank rank, std::uint64_t request, std::string_view kind,
                            std::string why) {
  parts_.uplink.send(WorkerAnswered{
      .rank = rank.value, .request = request, .error = std::move(why), .kind = std::string(kind)});
}

void WorkerCommands::end() {
  ended_ = true;
  commands_.kill_all();
  changed_.notify();
}

}  // namespace train
