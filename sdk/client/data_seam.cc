#include "sdk/client/data_seam.h"

#include <exception>
#include <new>
#include <utility>

#include "sdk/client/progress.h"
#include "sdk/client/worker_session.h"
#include "sdk/include/train/error.h"

namespace train::sdk {
namespace {

/// Return what `call` returns; if it throws, set the error and return an empty value.
template <class Call>
auto caught(SeamError& error, Call&& call) -> decltype(call()) {
  using Thrown = SeamError::Thrown;
  try {
    return call();
  } catch (const Stopped& stopped) {
    error = {Thrown::Stopped, "stopped", stopped.what()};
  } catch (const Failure& why) {
    error = {Thrown::Failure, why.kind(), why.what()};
  } catch (const std::exception& why) {
    error = {Thrown::Failure, "internal", why.what()};
  }
  return decltype(call())();
}

constexpr DataSeam kSeam{
    .build = TRAINRUN_BUILD,
    .worker_info = [](SeamError& error) { return caught(error, [] { return &worker_info(); }); },
    .all_gather =
        [](const std::string& name, const std::string& mine, std::chrono::milliseconds timeout,
           SeamError& error) {
          return caught(error, [&] { return all_gather(name, mine, timeout); });
        },
    .set_data_position =
        [](const std::string& dataset, const DataPosition& position, SeamError& error) {
          caught(error, [&] { set_data_position(dataset, position); });
        },
    .set_preprocessors =
        [](const std::string& dataset, const std::string& fitted, SeamError& error) {
          caught(error, [&] { set_preprocessors(dataset, fitted); });
        },
    .ingest_roster = [](SeamError& error) { return caught(error, [] { return ingest_roster(); }); },
    .get_checkpoint =
        [](SeamError& error) { return caught(error, [] { return train::get_checkpoint(); }); },
    .checkpoint_metadata = [](const Checkpoint& checkpoint) { return &checkpoint.metadata(); },
    .run_ingest =
        [](ServeIngest serve, SeamError& error) {
          return caught(error, [&] {
            register_ingest_server(serve);
            return run_ingest(current_session());
          });
        },
    .begin_phase = [](void* place, Phase phase, std::string_view name,
                      std::chrono::nanoseconds limit) { new (place) InPhase(phase, name, limit); },
    .end_phase = [](void* place) { static_cast<InPhase*>(place)->~InPhase(); },
    .set_base_phase = [](Phase phase) { set_base_phase(phase); },
    .time_in = [](Phase phase) { return time_in(phase); },
    .end_step = [](StepSource source) { end_step(source); },
    .data_page = [] { return &data_page(); },
    .at_run_end = [](void (*reset)()) { at_run_end(reset); },
};

}  // namespace
}  // namespace train::sdk

extern "C" const train::sdk::DataSeam* trainrun_data_seam(void) { return &train::sdk::kSeam; }
