#include "sdk/client/ingest.h"

#include <cstdio>
#include <exception>

#include "sdk/client/crash_report.h"
#include "sdk/client/failure.h"

namespace train::sdk {
namespace {

/// What sdk/data has registered, which may be before this file's own initialization.
ServeIngest& server() {
  static ServeIngest serve = nullptr;
  return serve;
}

int failed(const std::string& name, const UserError& error) {
  std::fprintf(stderr, "trainrun: %s: %s%s%s\n", name.c_str(), error.type.c_str(),
               error.type.empty() ? "" : ": ", error.what.c_str());
  if (!error.stack.empty())
    std::fprintf(stderr, "thrown at, innermost first:\n%s", error.stack.c_str());
  return 1;
}

}  // namespace

bool register_ingest_server(ServeIngest serve) {
  server() = serve;
  return true;
}

int run_ingest(WorkerSession& session) {
  const IngestRole& role = session.info().ingest;
  if (server() == nullptr)
    return failed(role.name,
                  {"the program reads no datasets with get_dataset_shard(), so it cannot serve '" +
                       role.dataset + "' (remove its ingest_workers from the spec)",
                   "", ""});
  const IngestService service{
      .role = role,
      .up = [&](const std::string& flight) { session.ingest_up(flight); },
      .busy = [&](const IngestFigures& figures) { session.ingest_busy(figures); },
      .stop = session.ingest_stop(),
      .should_stop = [&] { return session.ingest_stop().stop_requested(); }};
  try {
    return server()(session, service);
  } catch (...) {
    return failed(role.name, describe_exception(std::current_exception()));
  }
}

}  // namespace train::sdk
