#include "daemon/supervisor/processes/ingest_pool.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "daemon/supervisor/processes/command_runner.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "lib/model/ingest_flight.h"
#include "lib/net/within.h"
#include "lib/storage/own_folder.h"

namespace train {
namespace {

constexpr std::uint64_t kOutputBytesMax = 1u << 20;  // on our disk
constexpr std::size_t kOutputToldBytesMax = 64u << 10;
constexpr std::size_t kReadBytes = 64u << 10;
constexpr Duration kOutputEndMax = seconds(2);  // for pipes that something keeps open
constexpr Duration kStopGrace = seconds(5);
constexpr Duration kLookEvery = seconds(1);  // for silence
constexpr std::size_t kPlacesMax = 4096;
constexpr Duration kLoadEvery = milliseconds(500);  // a process may say it at any rate

}  // namespace

struct IngestPool::Process {
  std::string name, socket;
  std::string group;  // its name
  std::string flight;
  PipedProcess process;
  std::optional<Cgroup> cgroup;
  MemoryAccount memory;
  std::optional<OutputSpool> output;
  LastLines lines;
  int pipes = 2;  // not read to their end yet
  bool serves = false;
  TimePoint began{};
  TimePoint heard{};                      // its newest sign of life
  TimePoint told_load{};                  // to the launcher
  std::optional<TimePoint> stop_by = {};  // it was told to end

  void kill() const {
    if (cgroup) cgroup->kill();
    ::kill(-process.pid, SIGKILL);  // its session's process group
  }
};

// ---- orders

void IngestPool::start(const StartIngest& order) {
  if (ended_ || order.slot < 1) return;
  const Key key{order.dataset, order.slot};
  const auto known = places_.find(key);
  if (known != places_.end()) {
    known->second->order = order;
    known->second->wanted = true;
    return changed_.notify();
  }
  if (places_.size() >= kPlacesMax) return;  // more than any launcher of ours orders
  const auto place = std::make_shared<Place>(Place{order});
  places_.emplace(key, place);
  parts_.scope.spawn("ingest worker", run(place));
}

void IngestPool::stop(const StopIngest& order) {
  const auto known = places_.find({order.dataset, order.slot});
  if (known == places_.end()) return;
  Place& place = *known->second;
  place.wanted = false;
  if (place.process && !place.process->stop_by) {
    place.process->stop_by = clock_.now() + kStopGrace;
    parts_.send(place.process->name, encode(order, parts_.orders.attempt));
  }
  changed_.notify();
}

void IngestPool::end() {
  ended_ = true;
  for (auto& [key, place] : places_) {
    place->wanted = false;
    if (place->process) place->process->kill();
  }
  changed_.notify();
}

void IngestPool::renew_limits() const {
  for (const auto& [key, place] : places_)
    if (place->process)
      (void)parts_.confinement.ingest_group(place->process->group, place->order.claim);
}

// ---- processes

asio::awaitable<void> IngestPool::run(std::shared_ptr<Place> place) {
  const Key key{place->order.dataset, place->order.slot};
  while (place->wanted) {
    std::string name = fmt::format("ingest-{}-{:04}", key.first, key.second);
    // A name is never used again.
    if (const int number = ++started_[key]; number > 1) name += fmt::format("-{}", number);
    const TimePoint began = clock_.now();
    const auto spawned = spawn(place->order, name);
    std::string why;
    std::shared_ptr<Process> process;
    if (spawned) {
      process = place->process = *spawned;
      parts_.scope.spawn("ingest output", read(process, 0, process->process.stdout_fd));
      parts_.scope.spawn("ingest errors", read(process, 1, process->process.stderr_fd));
      auto ending = co_await watch(place, process);
      if (!ending) co_return;  // cancelled
      why = std::move(*ending);
      co_await drain(process);
      place->process.reset();
    } else {
      why = "it cannot be started: " + spawned.error().describe();
    }
    // One that was ordered to end may have been ordered again since.
    const bool told = process && process->stop_by.has_value();
    const IngestRestarts::Next next =
        told ? IngestRestarts::Next{} : place->restarts.ended(began, clock_.now());
    if (ended_) co_return;
    tell_ended(*place, name, why, process.get(), next);
    const TimePoint again = clock_.now() + next.wait;
    while (place->wanted && clock_.now() < again) {
      const auto woken = co_await changed_.wait_until(again);
      if (!woken) co_return;
    }
  }
  if (places_.contains(key) && places_.at(key) == place) places_.erase(key);
}

Result<std::shared_ptr<IngestPool::Process>> IngestPool::spawn(const StartIngest& order,
                                                               std::string name) {
  const AttemptOrders& orders = parts_.orders;
  const std::string folder = orders.spool_dir + "/ingest";
  TRY_VOID(make_private_folder(folder));
  auto process = std::make_shared<Process>();
  process->name = std::move(name);
  const int number = ++spawned_;  // short: a socket's path may have 107 bytes
  process->socket = fmt::format("{}/{}", folder, number);
  TRY(auto output, OutputSpool::create(fmt::format("{}/{}.out", folder, number), kOutputBytesMax));
  process->output.emplace(std::move(output));
  process->group = fmt::format("ingest-{}", number);
  process->cgroup = parts_.confinement.ingest_group(process->group, order.claim);
  process->memory = MemoryAccount::begin(process->cgroup);
  auto env =
      ingest_environment(orders.node_environment(*orders.start), process->name, order.claim.cpu);
  if (order.flight) env["TRAINRUN_INGEST_ADDRESS"] = orders.prepare->bind_address;
  TRY(process->process, spawn_piped(parts_.executor, {.argv = orders.start->command,
                                                      .working_dir = orders.start->working_dir,
                                                      .env = std::move(env),
                                                      .inherit_fds = {},
                                                      .cgroup = process->cgroup,
                                                      .rules = parts_.confinement.rules()}));
  process->began = process->heard = clock_.now();
  return process;
}

asio::awaitable<void> IngestPool::read(std::shared_ptr<Process> process, std::size_t stream,
                                       int fd) {
  asio::posix::stream_descriptor pipe(parts_.executor, fd);
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const auto [error, size] =
        co_await pipe.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) break;
    process->output->append({buffer.data(), size});
    process->lines.append(stream, {buffer.data(), size});
  }
  --process->pipes;
  changed_.notify();
}

Task<std::string> IngestPool::watch(std::shared_ptr<Place> place,
                                    std::shared_ptr<Process> process) {
  const pid_t pid = process->process.pid;
  std::string killed_for;
  for (;;) {
    const TimePoint asleep = clock_.now();
    auto waiting = wait_for_end(parts_.executor, pid);
    const Result<WaitStatus> status = co_await within(kLookEvery, std::move(waiting));
    const TimePoint now = clock_.now();
    if (status) {
      const bool killed = status->signaled && status->status == SIGKILL;
      const auto limit = process->memory.end(killed);
      process->kill();  // what it left behind
      if (!killed_for.empty()) co_return killed_for;
      if (limit)
        co_return fmt::format("it had used up the memory of its claim ({} MiB)",
                              place->order.claim.memory_bytes >> 20);
      co_return end_text(*status);
    }
    if (status.error().code != Errc::Timeout) co_return status.error();
    // We were stopped ourselves, or got no processor: what it said meanwhile was not read yet.
    if (now - asleep > kLookEvery + seconds(1)) process->heard = now;
    const Duration silent_max = milliseconds(place->order.timeout_ms);
    if (process->stop_by && now >= *process->stop_by) {
      killed_for = "it did not end when it was told to";
      process->kill();
    } else if (now - process->heard > silent_max) {
      killed_for = fmt::format("{} for {}, and was killed",
                               process->serves ? "it said nothing" : "it had not begun to serve",
                               format_duration(silent_max));
      process->kill();
    }
  }
}

/// Wait until its output is read, and remove what it had.
asio::awaitable<void> IngestPool::drain(std::shared_ptr<Process> process) {
  const TimePoint give_up = clock_.now() + kOutputEndMax;
  while (process->pipes > 0 && clock_.now() < give_up) {
    const auto woken = co_await changed_.wait_until(give_up);
    if (!woken) break;
  }
  if (process->cgroup) process->cgroup->remove();
  ::unlink(process->socket.c_str());
  ::unlink((process->socket + ".out").c_str());
}

void IngestPool::tell_ended(const Place& place, const std::string& name, const std::string& why,
                            const Process* process, IngestRestarts::Next next) {
  IngestEnded ended{.name = name,
                    .dataset = place.order.dataset,
                    .slot = place.order.slot,
                    .stopped = process != nullptr && process->stop_by.has_value(),
                    .why = why,
                    .deaths = place.restarts.deaths(),
                    .again_ms = std::chrono::duration_cast<milliseconds>(next.wait).count(),
                    .often = next.often};
  if (process != nullptr) {
    ended.last_lines = process->lines.lines();
    const std::uint64_t total = process->output->total();
    std::uint64_t offset = total - std::min<std::uint64_t>(total, kOutputToldBytesMax);
    ended.output = process->output->read(offset, kOutputToldBytesMax);
  }
  parts_.uplink.send(ended);
}

// ---- their connections

std::shared_ptr<IngestPool::Place> IngestPool::place_of(const std::string& name) const {
  for (const auto& [key, place] : places_)
    if (place->process && place->process->name == name) return place;
  return nullptr;
}

Result<Welcome> IngestPool::welcome(const WorkerHello& hello) const {
  const AttemptOrders& orders = parts_.orders;
  const auto place = place_of(hello.ingest);
  if (!place || hello.attempt != orders.attempt.value)
    return Error{Errc::Fenced,
                 fmt::format("no ingest worker of attempt {} on this node has that name",
                             orders.attempt.value)};
  if (hello.protocol_min > kProtocolMax || hello.protocol_max < kProtocolMin)
    return Error{Errc::Protocol,
                 fmt::format("the ingest worker's SDK speaks protocol {} to {}, this traind {} to "
                             "{}",
                             hello.protocol_min, hello.protocol_max, kProtocolMin, kProtocolMax)};
  const Process& process = *place->process;
  Welcome welcome;
  welcome.protocol = std::min(hello.protocol_max, kProtocolMax);
  welcome.attempt = orders.attempt.value;
  welcome.run = orders.start->run;
  welcome.run.master_port = 0;  // it meets nobody
  welcome.run_dir = orders.prepare->run_dir;
  welcome.ingest = {.name = process.name,
                    .dataset = place->order.dataset,
                    .socket = process.socket,
                    .flight = place->order.flight};
  return welcome;
}

Result<Unit> IngestPool::received(const std::string& name, const Frame& frame) {
  const auto place = place_of(name);
  if (!place) return Error{Errc::Fenced, "this ingest worker was replaced"};
  Process& process = *place->process;
  process.heard = clock_.now();
  switch (frame.type) {
    case MessageType::IngestUp: {
      TRY(IngestUp message, decode<IngestUp>(frame));
      if (message.flight.size() > kIngestFlightBytesMax)
        return Error{Errc::Protocol, "what it says of its Flight server is too long"};
      if (std::exchange(process.serves, true)) return Unit{};
      process.flight = message.flight;
      message.name = process.name;
      message.dataset = place->order.dataset;
      message.slot = place->order.slot;
      message.socket = process.socket;
      parts_.uplink.send(message);
      return Unit{};
    }
    case MessageType::IngestLoad: {
      TRY(IngestLoad message, decode<IngestLoad>(frame));
      if (process.heard - process.told_load < kLoadEvery) return Unit{};
      process.told_load = process.heard;
      message.name = process.name;
      message.dataset = place->order.dataset;
      message.slot = place->order.slot;
      parts_.uplink.send(message);
      return Unit{};
    }
    case MessageType::WorkerGoodbye:
      parts_.send(name, encode(GoodbyeAck{}, parts_.orders.attempt));
      return Unit{};
    case MessageType::WorkerError:  // its stderr has the same
      return Unit{};
    default:
      return Error{Errc::Protocol,
                   fmt::format("an ingest worker may not send {}", to_string(frame.type))};
  }
}

std::vector<IngestPlace> IngestPool::places() const {
  std::vector<IngestPlace> all;
  for (const auto& [key, place] : places_) {
    if (!place->wanted) continue;
    IngestPlace& told = all.emplace_back(
        IngestPlace{.dataset = key.first, .slot = key.second, .deaths = place->restarts.deaths()});
    if (!place->process || !place->process->serves || place->process->stop_by) continue;
    told.name = place->process->name;
    told.socket = place->process->socket;
    told.flight = place->process->flight;
  }
  return all;
}

}  // namespace train
