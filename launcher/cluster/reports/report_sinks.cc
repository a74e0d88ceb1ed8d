#include "launcher/cluster/reports/report_sinks.h"

#include "launcher/cluster/run/run_record.h"
#include "lib/base/host.h"
#include "lib/observe/progress_csv.h"
#include "lib/observe/tensorboard.h"

namespace train {

Result<std::vector<std::unique_ptr<ReportSink>>> open_report_sinks(
    const std::vector<std::string>& callbacks, const RunFolder& folder,
    std::chrono::system_clock::time_point wall, const std::string& spec_yaml,
    std::optional<Attempt> adopted) {
  std::vector<std::unique_ptr<ReportSink>> sinks;
  for (const std::string& name : callbacks) {
    if (name == "csv") {
      TRY(auto csv, ProgressCsv::open(folder.progress_csv()));
      sinks.push_back(std::make_unique<ProgressCsv>(std::move(csv)));
    } else if (name == "tensorboard") {
      const std::int64_t wall_us =
          std::chrono::duration_cast<std::chrono::microseconds>(wall.time_since_epoch()).count();
      TensorboardFile::Options options{
          .folder = folder.tensorboard(), .hostname = host_name(), .wall_us = wall_us};
      if (adopted) options.adopted = adopted->value;
      TRY(auto events, TensorboardFile::open(options));
      events.write_text("spec", "```yaml\n" + spec_yaml + "\n```", wall_us);
      sinks.push_back(std::make_unique<TensorboardFile>(std::move(events)));
    }
  }
  return sinks;
}

}  // namespace train
