// serve_numbers SOCKET FOLDER: an ingest worker for tests, which ends with its standard input.
#include <arrow/compute/initialize.h>
#include <unistd.h>

#include <cstdio>

#include "tests/unit/lib_data/numbers_server.h"

int main(int argc, char** argv) {
  if (argc != 3 || !arrow::compute::Initialize().ok()) return 2;
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
  std::puts("up");
  std::fflush(stdout);
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}
