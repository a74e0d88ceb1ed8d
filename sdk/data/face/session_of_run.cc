// The session of libtrainrun.so, for sdk/data in libtrainrun_data.so: the functions of session.h,
// train/checkpoint.h and progress.h that it calls, by way of sdk/client/data_seam.h.
#include <train/checkpoint.h>
#include <train/error.h>

#include <cstdio>
#include <exception>
#include <string_view>

#include "sdk/client/data_seam.h"
#include "sdk/client/progress.h"
#include "sdk/data/face/serve_ingest.h"
#include "sdk/data/ingest_role.h"

namespace train {
namespace {

using sdk::DataSeam;
using sdk::SeamError;

const DataSeam& seam() {
  static const DataSeam& of_run = *trainrun_data_seam();
  if (std::string_view(of_run.build) != TRAINRUN_BUILD)
    throw Failure("unavailable", std::string("libtrainrun_data.so is of ") + TRAINRUN_BUILD +
                                     ", and libtrainrun.so of " + of_run.build +
                                     " (install both together)");
  return of_run;
}

/// Call a function of the seam, and throw what it would have thrown.
template <class Function, class... Arguments>
auto call(Function function, const Arguments&... arguments) {
  struct Rethrow {
    SeamError error = {};
    void operator()() const {
      if (error.thrown == SeamError::Thrown::Stopped) throw Stopped(error.text);
      if (error.thrown == SeamError::Thrown::Failure) throw Failure(error.kind, error.text);
    }
  } rethrow;
  if constexpr (std::is_void_v<decltype(function(arguments..., rethrow.error))>) {
    function(arguments..., rethrow.error);
    rethrow();
  } else {
    auto value = function(arguments..., rethrow.error);
    rethrow();
    return value;
  }
}

/// Serve datasets. Throws nothing: the caller is in the other library.
int serve(sdk::WorkerSession& session, const sdk::IngestService& service) {
  try {
    return sdk::serve_ingest(session, service);
  } catch (const std::exception& why) {
    std::fprintf(stderr, "trainrun: %s: %s\n", service.role.name.c_str(), why.what());
    return 1;
  }
}

}  // namespace

std::optional<Checkpoint> get_checkpoint() { return call(seam().get_checkpoint); }
const Dict& Checkpoint::metadata() const { return *seam().checkpoint_metadata(*this); }

namespace sdk {

const WorkerInfo& worker_info() { return *call(seam().worker_info); }
std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                    std::chrono::milliseconds timeout) {
  return call(seam().all_gather, name, mine, timeout);
}
void set_data_position(const std::string& dataset, const DataPosition& position) {
  call(seam().set_data_position, dataset, position);
}
void set_preprocessors(const std::string& dataset, std::string fitted) {
  call(seam().set_preprocessors, dataset, fitted);
}
IngestRoster ingest_roster() { return call(seam().ingest_roster); }

/// The program asks for it: serve_datasets().
bool register_ingest_server(ServeIngest) { return true; }
int serve_datasets() { return call(seam().run_ingest, &serve); }

InPhase::InPhase(Phase phase, std::string_view name, std::chrono::nanoseconds limit) {
  seam().begin_phase(this, phase, name, limit);
}
InPhase::~InPhase() { seam().end_phase(this); }
void set_base_phase(Phase phase) { seam().set_base_phase(phase); }
std::uint64_t time_in(Phase phase) { return seam().time_in(phase); }
void end_step(StepSource source) { seam().end_step(source); }
DataPage& data_page() { return *seam().data_page(); }
void at_run_end(void (*reset)()) { seam().at_run_end(reset); }

}  // namespace sdk
}  // namespace train
