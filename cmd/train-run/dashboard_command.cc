// dashboard: serves runs to browsers.
#include "cmd/build_info.h"
#include "cmd/train-run/commands.h"
#include "lib/base/host.h"

namespace train {

int dashboard_command(DashboardOptions options) {
  if (options.places.empty()) options.places.push_back(home_folder() + "/train_results");
  options.version = kBuild;
  return run_dashboard(options);
}

}  // namespace train
