// dashboard: serves runs to browsers.
#include <filesystem>

#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "lib/base/host.h"
#include "lib/base/store_url.h"

namespace train {

int dashboard_command(DashboardOptions options) {
  if (options.places.empty()) options.places.push_back(home_folder() + "/train_results");
  for (std::string& place : options.places) {
    std::error_code ignored;
    if (is_object_url(place) || place.find('/') != place.npos ||
        std::filesystem::exists(place, ignored))
      continue;
    const auto run = path_of({.run = place, .storage_path = {}});  // a run's name
    if (!run) {
      print_error(run.error());
      return exit_code_of(run.error(), exit_code::kUsage);
    }
    place = *run;
  }
  options.version = kBuild;
  return run_dashboard(options);
}

}  // namespace train
