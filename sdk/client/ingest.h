// Runs in a process that the supervisor started as an ingest worker: TRAINRUN_INGEST is set there.
// The program serves a dataset to the ranks where it would call its loop. What serves is in
// sdk/data, which this library does not link: it registers itself.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "lib/model/ingest_roster.h"
#include "sdk/client/worker_session.h"

namespace train::sdk {

/// What an ingest worker has done since it began.
struct IngestFigures {
  std::int64_t rows = 0, bytes = 0;  // handed over
  std::int64_t cpu_us = 0;           // used by this process
};

/// What serve() gets: what to do, and whom to tell.
struct IngestService {
  IngestRole role;
  /// Say, once, that ranks may ask: role.socket listens, and so does the Flight server at
  /// `flight` (host:port), if there is one; else that is empty.
  std::function<void(const std::string& flight)> up;
  /// Say what was done so far, each second: an ingest worker that says nothing for its timeout is
  /// killed.
  std::function<void(const IngestFigures& figures)> busy;
  std::stop_token stop;               // asks to end
  std::function<bool()> should_stop;  // has it asked?
};

/// Serves until it is told to end, and returns the exit code. May throw.
using ServeIngest = int (*)(WorkerSession& session, const IngestService& service);

/// Register what serves. Called while the program is loaded; returns true.
bool register_ingest_server(ServeIngest serve);

/// Serve, and return the exit code.
int run_ingest(WorkerSession& session);

}  // namespace train::sdk
