// serve_numbers SOCKET FOLDER [HOST]: an ingest worker for tests, which ends with its standard
// input. With HOST it serves over Flight, too, and writes how to reach it.
#include <arrow/compute/initialize.h>
#include <unistd.h>

#include <cstdio>

#include "lib/data/serve/flight_module.h"
#include "tests/unit/lib_data/numbers_server.h"

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4 || !arrow::compute::Initialize().ok()) return 2;
  auto source = train::data::open_files({.paths = {argv[2]}});
  if (source.has_error()) return 3;
  auto server = train::data::IngestServer::start(
      argv[1],
      train::data::plain_parts(std::shared_ptr<train::data::RowSource>(std::move(*source))),
      [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); });
  if (server.has_error()) {
    std::fprintf(stderr, "%s\n", server.error().describe().c_str());
    return 4;
  }
  std::unique_ptr<train::data::FlightServer> flight;
  if (argc == 4) {
    auto started = train::data::start_flight_server(
        {.host = argv[3],
         .serve = [&](train::data::RankChannel& channel) { (*server)->serve_rank(channel); }});
    if (started.has_error()) {
      std::fprintf(stderr, "%s\n", started.error().describe().c_str());
      return 5;
    }
    flight = std::move(*started);
    const train::data::FlightAccess& access = flight->access();
    std::printf("%s %s\n%s.\n", access.address.c_str(), access.token.c_str(),
                access.certificate.c_str());
  }
  std::puts("up");
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  (*server)->stop();
  return 0;
}
