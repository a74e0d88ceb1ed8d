#include "launcher/cluster/reports/report_sinks.h"

#include <boost/json.hpp>

#include "launcher/cluster/run/run_record.h"
#include "launcher/spec/secrets.h"
#include "lib/base/host.h"
#include "lib/observe/progress_csv.h"
#include "lib/observe/tensorboard.h"

namespace train {
namespace {

namespace json = boost::json;

void flatten(const json::value& value, const std::string& name, Metrics& hparams) {
  if (const json::object* object = value.if_object()) {
    for (const auto& [key, item] : *object)
      flatten(item, name.empty() ? std::string(key) : name + "." + std::string(key), hparams);
  } else if (value.is_bool()) {
    hparams.emplace_back(name, value.as_bool());
  } else if (value.is_int64()) {
    hparams.emplace_back(name, value.as_int64());
  } else if (value.is_number()) {
    hparams.emplace_back(name, value.to_number<double>());
  } else {
    const json::string* text = value.if_string();
    hparams.emplace_back(name, text != nullptr ? std::string(*text) : json::serialize(value));
  }
}

}  // namespace

Metrics hparams_of(const JobSpec& spec) {
  Metrics hparams;
  flatten(spec::shown_spec(spec).train_loop_config, "", hparams);
  return hparams;
}

Result<std::vector<std::unique_ptr<ReportSink>>> open_report_sinks(
    const std::vector<std::string>& callbacks, const RunFolder& folder,
    std::chrono::system_clock::time_point wall, const std::string& spec_yaml,
    std::optional<Attempt> adopted, const Metrics& hparams) {
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
      events.write_hparams(hparams, wall_us);
      sinks.push_back(std::make_unique<TensorboardFile>(std::move(events)));
    }
  }
  return sinks;
}

}  // namespace train
