// As a rank: reports which ingest workers its roster names, whenever that changes, until the file
// `stop` exists. As an ingest worker: serves nothing, until it is told to end; in attempt 0 it
// fails as `fails` says: always, or never.
#include <train/train.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

#include "sdk/client/ingest.h"

namespace {

using std::chrono::milliseconds;
using train::sdk::IngestFigures;
using train::sdk::IngestService;
using train::sdk::WorkerSession;

int serve(WorkerSession& session, const IngestService& service) {
  std::printf("%s begins\n", service.role.name.c_str());
  std::fflush(stdout);
  if (session.info().config.get<bool>("fails", false)) throw std::runtime_error("no such column");
  std::ofstream(service.role.socket) << ::getpid() << "\n";
  service.up("");
  IngestFigures figures;
  while (!service.stop.stop_requested()) {
    ++figures.rows;
    service.busy(figures);
    std::this_thread::sleep_for(milliseconds(100));
  }
  return 0;
}

void train_loop(const train::Config& config) {
  const std::filesystem::path stop = config.get<std::string>("stop");
  std::uint64_t version = 0;
  train::report({{"ingest", "begins"}});
  while (!std::filesystem::exists(stop)) {
    const train::IngestRoster roster = train::sdk::current_session().ingest_roster();
    if (roster.version != version) {
      version = roster.version;
      std::string names, sockets;
      for (const train::IngestEndpoint& endpoint : roster.endpoints) {
        names += (names.empty() ? "" : " ") + endpoint.name;
        sockets += (sockets.empty() ? "" : " ") + endpoint.socket;
      }
      train::report({{"version", static_cast<std::int64_t>(version)},
                     {"ingest", names},
                     {"sockets", sockets}});
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
}

}  // namespace

int main(int argc, char** argv) {
  train::sdk::register_ingest_server(serve);
  return train::run(argc, argv, train_loop);
}
