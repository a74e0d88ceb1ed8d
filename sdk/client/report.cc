#include <train/report.h>
#include <train/serve.h>

#include "sdk/client/checkpoint_stager.h"
#include "sdk/client/served_calls.h"
#include "sdk/client/worker_session.h"

namespace train {

void report(const Dict& metrics) {
  sdk::WorkerSession& session = sdk::current_session();
  session.report(metrics, nullptr);
  session.run_calls();
}

void report(const Dict& metrics, const Checkpoint& checkpoint, const ReportOptions& options) {
  sdk::WorkerSession& session = sdk::current_session();
  if (options.upload == Upload::None) {
    const Checkpoint moved = sdk::to_be_moved(checkpoint, session.info());
    session.report(metrics, &moved);
  } else {
    session.report(metrics, &checkpoint);
  }
  if (options.upload == Upload::Sync) (void)wait_for_checkpoint();
  session.run_calls();
}

void serve(const std::string& name, std::function<Value(const Value&)> function, ServeWhen when) {
  sdk::ServedFunctions::of_process().serve(name, {std::move(function), when});
}

std::size_t poll(std::chrono::milliseconds wait) { return sdk::current_session().poll(wait); }

std::optional<std::filesystem::path> wait_for_checkpoint() {
  return sdk::current_session().wait_for_checkpoint();
}

void on_stop(std::function<Checkpoint()> make) { sdk::current_session().on_stop(std::move(make)); }

bool checkpoint_requested() { return sdk::current_session().checkpoint_requested(); }

bool should_stop() { return sdk::current_session().should_stop(); }

void set_result(const Value& value) { sdk::current_session().set_result(sdk::result_json(value)); }

}  // namespace train
