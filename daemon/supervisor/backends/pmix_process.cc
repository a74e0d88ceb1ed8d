#include "daemon/supervisor/backends/pmix_process.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "daemon/supervisor/backends/pmi_space.h"
#include "daemon/supervisor/backends/pmix_exchange.h"
#include "daemon/supervisor/backends/pmix_libraries.h"
#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/helper_program.h"
#include "lib/base/utf8.h"
#include "lib/net/within.h"
#include "lib/storage/own_folder.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr const char* kProgram = "trainrun-pmix";
constexpr Duration kStartMax = seconds(30);
constexpr Duration kEndMax = seconds(2);
constexpr Duration kForever = std::chrono::hours(24 * 365 * 10);
constexpr std::size_t kErrorBytesMax = 2048;  // the newest of what it wrote to stderr
constexpr std::size_t kNoticeBytesMax = 1024;
constexpr std::size_t kValueBytesMax = 16u << 10;  // of a variable
constexpr std::size_t kFencesMax = 4;              // at the same time
constexpr std::size_t kUnreadBytesMax = 8u << 20;  // that it has not read
constexpr Duration kReadMax = seconds(30);
constexpr int kNoticesMax = 100;  // texts of one attempt

const char* kInstall =
    "install libpmix (Debian: libpmix2), or name the file in env: {TRAINRUN_PMIX_LIBRARY: …}";

}  // namespace

const PmixProcess::Environment& PmixProcess::variables(Rank rank) const {
  static const Environment kNone;
  const auto found = variables_.find(rank);
  return found == variables_.end() ? kNone : found->second;
}

Task<Unit> PmixProcess::start() {
  const StartWorkers& order = *parts_.orders.start;
  if (order.backend.pmi != "pmix" || order.workers.empty()) co_return Unit{};
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    co_return system_error(errno, "making a socket for trainrun-pmix");
  const FileDescriptor theirs(ends[1]);
  CO_TRY(link_, Connection::adopt(parts_.executor, ends[0]));
  CO_TRY(CommandRunner::Order command, order_for(theirs));
  parts_.scope.spawn(kProgram, run(std::move(command)));
  auto serving = within(kStartMax, serve_ranks());
  const auto served = co_await std::move(serving);
  if (served.has_error()) {
    const std::string why = ended_.empty() ? served.error().message : ended_;
    co_return Error{served.error().code, fmt::format("{}: {}", kProgram, why), served.error().hint};
  }
  for (const WorkerRanks& worker : order.workers) inits_.expect(Rank{worker.rank});
  parts_.scope.spawn("PMIx", listen());
  parts_.scope.spawn(
      "MPI_Init", inits_.warn("is the program linked to an MPI that uses PMIx, as Open MPI does?"));
  co_return Unit{};
}

/// It runs as a worker would, but without the workers' limits: MPI does not start without it.
Result<CommandRunner::Order> PmixProcess::order_for(const FileDescriptor& socket) {
  const StartWorkers& order = *parts_.orders.start;
  const std::string program = find_helper_program(kProgram);
  if (program.empty())
    return Error{Errc::NotFound, "trainrun-pmix is not installed beside traind",
                 "install trainrun completely"};
  CommandRunner::Order command{.name = "pmix",
                               .argv = {program},
                               .working_dir = order.working_dir,
                               .env = parts_.environment(Rank{order.workers.front().rank}),
                               .limit = kForever,
                               .inherit_fds = {socket.get()}};
  command.env.erase("TRAINRUN_SOCKET");  // it is the worker's
  command.env.erase("LD_PRELOAD");       // so are profilers and sanitizers
  command.env["TRAINRUN_PMIX_FD"] = std::to_string(socket.get());
  return command;
}

asio::awaitable<void> PmixProcess::run(CommandRunner::Order order) {
  std::string errors;
  order.output = [&](std::string_view data, bool of_errors) {
    if (!of_errors) return;
    errors.append(data);
    if (errors.size() > kErrorBytesMax) errors.erase(0, errors.size() - kErrorBytesMax);
  };
  auto running = commands_.run(std::move(order));
  const auto end = co_await std::move(running);
  const std::string how = end.has_error() ? end.error().message : end_text(end->status);
  ended_ = how + (errors.empty() ? "" : ": " + utf8_text(errors));
  changed_.notify();
  if (link_) link_->close();
  if (!shutting_down_ && !variables_.empty())
    parts_.uplink.send(StorageTrouble{fmt::format(
        "{}: {}; MPI_Init and MPI_Finalize of this node's ranks will fail", kProgram, ended_)});
}

Task<Unit> PmixProcess::serve_ranks() {
  const StartWorkers& order = *parts_.orders.start;
  const std::string dir = parts_.orders.spool_dir + "/pmix";
  CO_TRY_VOID(make_own_folder(dir));
  const Environment environment = parts_.environment(Rank{order.workers.front().rank});
  const auto path = environment.find("PATH");
  const auto program =
      find_program(parts_.orders.command_of(0).front(), order.working_dir,
                   path != environment.end() ? path->second : std::string(kDefaultPath));
  link_->send(
      encode(ServePmix{.name = pmi_space_name(order.run.run_id, parts_.orders.attempt.value),
                       .node_sizes = order.node_sizes,
                       .node_rank = order.workers.front().node_rank,
                       .dir = dir,
                       .libraries = pmix_libraries(program ? *program : "", environment)}));
  CO_TRY(const Frame answer, co_await link_->receive());
  if (answer.type != MessageType::PmixServed)
    co_return Error{Errc::Protocol, "it answered " + to_string(answer.type)};
  CO_TRY(PmixServed served, decode<PmixServed>(answer));
  if (!served.error.empty())
    co_return Error{Errc::NotFound, utf8_text(served.error, kErrorBytesMax), kInstall};
  if (served.environments.size() != order.workers.size())
    co_return Error{Errc::Protocol, "it serves other ranks than this node has"};
  for (std::size_t i = 0; i < served.environments.size(); ++i) {
    Environment& variables = variables_[Rank{order.workers[i].rank}];
    for (auto& [name, value] : served.environments[i])
      if (name.starts_with("PMIX_") && value.size() <= kValueBytesMax)
        variables[name] = std::move(value);
  }
  co_return Unit{};
}

// It may be any program that a user's libpmix makes of it: what it says wrongly, or does not read,
// ends it.
asio::awaitable<void> PmixProcess::listen() {
  Result<Unit> taken = Unit{};
  while (taken) {
    auto receiving = link_->receive();
    const auto frame = co_await std::move(receiving);
    taken = frame ? take(*frame) : Result<Unit>(frame.error());
    if (!taken) break;
    auto draining = within(kReadMax, link_->wait_queue_below(kUnreadBytesMax));
    taken = co_await std::move(draining);
  }
  if (shutting_down_ || taken.error().code == Errc::Cancelled) co_return;
  link_->close();
  if (taken.error().code != Errc::Unavailable)  // else run() tells how it has ended
    parts_.uplink.send(StorageTrouble{fmt::format("{}: {}", kProgram, taken.error().message)});
  commands_.kill_all();
}

Result<Unit> PmixProcess::take(const Frame& frame) {
  if (frame.type == MessageType::PmixNotice) {
    TRY(const PmixNotice notice, decode<PmixNotice>(frame));
    take(notice);
    return Unit{};
  }
  if (frame.type != MessageType::PmixFence)
    return Error{Errc::Protocol, "it said " + to_string(frame.type)};
  TRY(PmixFence fence, decode<PmixFence>(frame));
  if (fence.fence != last_fence_ + 1 || fences_.size() >= kFencesMax)
    return Error{Errc::Protocol, "it began a fence out of turn"};
  last_fence_ = fence.fence;
  fences_.push_back(std::move(fence));
  if (fences_.size() == 1) parts_.scope.spawn("fences of PMIx", end_fences());
  return Unit{};
}

void PmixProcess::take(const PmixNotice& notice) {
  if (notice.began) inits_.began(Rank{notice.rank});
  if (notice.text.empty() || ++notices_ > kNoticesMax) return;
  const std::string whose = notice.rank < 0 ? "MPI" : fmt::format("rank {}", notice.rank);
  parts_.uplink.send(
      StorageTrouble{fmt::format("{}: {}", whose, utf8_text(notice.text, kNoticeBytesMax))});
}

// In their order: ranks of all nodes come to them in the same one.
asio::awaitable<void> PmixProcess::end_fences() {
  for (; !fences_.empty(); fences_.pop_front()) {
    PmixFence& fence = fences_.front();
    auto exchanging = exchange(fence.own_ranks, std::move(fence.data));
    auto data = co_await std::move(exchanging);
    if (data.has_error() && data.error().code == Errc::Cancelled) co_return;
    PmixFenceOver over{.fence = fence.fence};
    if (data)
      over.data = std::move(*data);
    else
      over.error = data.error().message;
    if (data.has_error()) parts_.uplink.send(StorageTrouble{"MPI: " + over.error});
    link_->send(encode(over));
  }
}

Task<std::string> PmixProcess::exchange(bool own_ranks, std::string data) {
  const StartWorkers& order = *parts_.orders.start;
  if (own_ranks || order.node_sizes.size() == 1) co_return std::move(data);
  PmixExchange nodes(order.node_sizes, order.workers.front().node_rank, data);
  for (bool over = false; !over;) {
    std::vector<std::string> own;
    for (std::size_t i = 0; i < order.workers.size(); ++i)
      own.push_back(nodes.part(static_cast<std::int32_t>(i)));
    auto gathering = gather(own);
    CO_TRY(const std::vector<std::string> parts, co_await std::move(gathering));
    CO_TRY(over, nodes.take(parts));
  }
  co_return nodes.data();
}

/// Shared with the flows of the ranks.
struct PmixProcess::Gathering {
  std::size_t left = 0;
  Result<BackendCalls::Parts> result = BackendCalls::Parts{};
};

Task<std::vector<std::string>> PmixProcess::gather(const std::vector<std::string>& own) {
  const auto shared = std::make_shared<Gathering>();
  const std::vector<WorkerRanks>& workers = parts_.orders.start->workers;
  shared->left = workers.size();
  for (std::size_t i = 0; i < workers.size(); ++i)
    parts_.scope.spawn("fence of a rank", join(Rank{workers[i].rank}, own[i], shared));
  while (shared->left > 0) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  if (shared->result.has_error()) co_return shared->result.error();
  co_return (*shared->result)->parts;
}

asio::awaitable<void> PmixProcess::join(Rank rank, std::string part,
                                        std::shared_ptr<Gathering> shared) {
  auto asking = parts_.calls.all_gather(rank, "MPI fence", std::move(part));
  auto parts = co_await std::move(asking);
  if (shared->result) shared->result = std::move(parts);
  --shared->left;
  changed_.notify();
}

asio::awaitable<void> PmixProcess::shut_down() {
  shutting_down_ = true;
  inits_.stop();
  if (!link_) co_return;
  link_->close();  // it ends by that
  auto ending = commands_.none_runs(kEndMax);
  (void)co_await std::move(ending);
  commands_.kill_all();
}

}  // namespace train
