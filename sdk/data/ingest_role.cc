#include "sdk/data/ingest_role.h"

#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "lib/data/serve/flight_module.h"
#include "lib/data/serve/ingest_server.h"
#include "sdk/client/session.h"
#include "sdk/data/mapped_parts.h"

namespace train::sdk {
namespace {

constexpr std::chrono::milliseconds kTick{50};
constexpr int kTicksBetweenFigures = 20;  // a second

std::int64_t cpu_us() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto us = [](const timeval& time) {
    return static_cast<std::int64_t>(time.tv_sec) * 1'000'000 + time.tv_usec;
  };
  return us(usage.ru_utime) + us(usage.ru_stime);
}

IngestFigures figures_of(const data::IngestServer& server) {
  const auto counts = server.counts();
  return {.rows = counts.rows, .bytes = counts.bytes, .cpu_us = cpu_us()};
}

int failed(const IngestService& service, Error error) {
  std::fprintf(stderr, "trainrun: %s: dataset '%s': %s\n", service.role.name.c_str(),
               service.role.dataset.c_str(), error.describe().c_str());
  return 1;
}

}  // namespace

int serve_ingest(WorkerSession&, const IngestService& service) { return serve_dataset(service); }

int serve_dataset(const IngestService& service) {
  const IngestRole& role = service.role;
  const Dict& datasets = worker_info().datasets;
  const auto entry = datasets.find(role.dataset);
  if (entry == datasets.end() || !entry->second.is_dict())
    return failed(service, {Errc::NotFound, "the job has no such dataset"});
  auto dataset = ServedDataset::open(role.dataset, entry->second.as<Dict>());
  if (dataset.has_error()) return failed(service, std::move(dataset).error());
  auto server = data::IngestServer::start(
      role.socket, [&](const data::OpenPass& pass) { return (*dataset)->open_pass(pass); },
      [name = role.name](const std::string& line) {
        std::fprintf(stderr, "trainrun: %s: %s\n", name.c_str(), line.c_str());
      });
  if (server.has_error()) return failed(service, std::move(server).error());
  std::unique_ptr<data::FlightServer> flight;                          // for ranks on other nodes
  const char* const address = std::getenv("TRAINRUN_INGEST_ADDRESS");  // of this node, for others
  if (role.flight && address != nullptr) {
    auto started =
        data::start_flight_server({.host = address, .serve = [&](data::RankChannel& channel) {
                                     (*server)->serve_rank(channel);
                                   }});
    if (started.has_error()) return failed(service, std::move(started).error());
    flight = std::move(*started);
  }
  service.up(flight ? text_of(flight->access()) : "");
  std::mutex mutex;
  std::condition_variable never;
  for (int tick = 1; !service.should_stop(); ++tick) {
    if (tick % kTicksBetweenFigures == 0) service.busy(figures_of(**server));
    std::unique_lock lock(mutex);
    never.wait_for(lock, kTick);
  }
  service.busy(figures_of(**server));
  (*server)->stop();  // what ends all calls of Flight
  return 0;
}

}  // namespace train::sdk
