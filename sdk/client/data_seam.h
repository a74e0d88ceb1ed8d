// Lets libtrainrun_data.so, which reads datasets for other languages, use the session of
// libtrainrun.so: a process has one session, and each library has a copy of the SDK's code. Both
// are of the same build, so that they share types; but no exception passes from one to the other,
// because each may have a C++ runtime of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/progress/data_page.h"
#include "lib/progress/progress_writer.h"
#include "sdk/client/ingest.h"
#include "sdk/client/session.h"
#include "sdk/include/train/checkpoint.h"

namespace train::sdk {

/// What a function of the seam would have thrown.
struct SeamError {
  enum class Thrown { None, Failure, Stopped };
  Thrown thrown = Thrown::None;
  std::string kind = {}, text = {};
};

/// The functions of session.h, train/checkpoint.h and progress.h that sdk/data calls. Those that
/// can throw take an error, and return nothing of use if they have set it.
struct DataSeam {
  const char* build;  // "trainrun" and the version: the same in both libraries
  const WorkerInfo* (*worker_info)(SeamError&);
  std::vector<std::string> (*all_gather)(const std::string& name, const std::string& mine,
                                         std::chrono::milliseconds timeout, SeamError&);
  void (*set_data_position)(const std::string& dataset, const DataPosition&, SeamError&);
  void (*set_preprocessors)(const std::string& dataset, const std::string& fitted, SeamError&);
  IngestRoster (*ingest_roster)(SeamError&);
  std::optional<Checkpoint> (*get_checkpoint)(SeamError&);
  const Dict* (*checkpoint_metadata)(const Checkpoint&);
  /// Serve with `serve`, which throws nothing, and return the exit code.
  int (*run_ingest)(ServeIngest serve, SeamError&);

  /// Make, and end, an InPhase at a place: both libraries see the same object.
  void (*begin_phase)(void* place, Phase, std::string_view name, std::chrono::nanoseconds limit);
  void (*end_phase)(void* place);
  void (*set_base_phase)(Phase);
  std::uint64_t (*time_in)(Phase);
  void (*end_step)(StepSource);
  DataPage* (*data_page)();
  void (*at_run_end)(void (*reset)());
};

}  // namespace train::sdk

extern "C" const train::sdk::DataSeam* trainrun_data_seam(void);
