#include "launcher/spec/resolved_yaml.h"

#include <fmt/format.h>

#include "launcher/spec/secrets.h"
#include "launcher/spec/spec_values.h"
#include "launcher/spec/sweep_reader.h"
#include "lib/base/secrets.h"
#include "lib/yaml/scalar.h"
#include "lib/yaml/writer.h"

namespace train::spec {
namespace {

namespace json = boost::json;

/// Return "default", "job.yaml:4", "--set", "--gpus", "job.yaml:4 with $HOME".
std::string origin_words(const Reading& reading, std::string_view path) {
  const Origin* origin = reading.given(path);
  // A value without an origin of its own is a default, even if the section around it is present.
  if (origin == nullptr) return "default";
  std::string where = origin->at.source == nullptr ? "env" : origin->at.file_and_line();
  if (origin->at.source != nullptr && origin->at.source->name.starts_with("-"))
    where = origin->at.source->name;  // an option
  return origin->variable.empty() ? where : fmt::format("{} {}", where, origin->variable);
}

class Printer {
 public:
  explicit Printer(const Reading* reading) : reading_(reading) {}

  void mapping(const json::object& object, const std::string& path, int indent) {
    for (const auto& [key, value] : object) {
      const std::string below = yaml::join_path(path, std::string_view(key));
      const std::string start =
          fmt::format("{:{}}{}:", "", indent, yaml::write_text(std::string_view(key)));
      if (value.is_object() && !value.as_object().empty()) {
        line(start, {});
        mapping(value.as_object(), below, indent + 2);
      } else if (value.is_array() && !value.as_array().empty() && value.as_array()[0].is_object()) {
        line(start, below);
        for (const json::value& item : value.as_array())
          line(fmt::format("{:{}}- {}", "", indent + 2, flow(item)), {});
      } else {
        line(fmt::format("{} {}", start, flow(value)), below);
      }
    }
  }

  std::string take() { return std::move(out_); }

 private:
  void line(const std::string& text, const std::string& path) {
    out_ += text;
    if (reading_ != nullptr && !path.empty())
      out_ += fmt::format("  # {}", origin_words(*reading_, path));
    out_ += '\n';
  }

  static std::string flow(const json::value& value) {
    switch (value.kind()) {
      case json::kind::null:
        return "null";
      case json::kind::bool_:
        return value.as_bool() ? "true" : "false";
      case json::kind::int64:
        return fmt::format("{}", value.as_int64());
      case json::kind::uint64:
        return fmt::format("{}", value.as_uint64());
      case json::kind::double_:
        return yaml::format_number_yaml(value.as_double());
      case json::kind::string:
        return yaml::write_text(std::string_view(value.as_string()));
      case json::kind::array: {
        std::string text;
        for (const json::value& item : value.as_array())
          text += (text.empty() ? "" : ", ") + flow(item);
        return "[" + text + "]";
      }
      case json::kind::object: {
        std::string text;
        for (const auto& [key, item] : value.as_object()) {
          text += (text.empty() ? "" : ", ") + yaml::write_text(std::string_view(key)) + ": " +
                  flow(item);
        }
        return "{" + text + "}";
      }
    }
    return {};
  }

  const Reading* reading_;
  std::string out_;
};

/// Leave out values that the parser computes from other keys, so that they follow a `--set` of
/// those on resume.
void leave_out_computed(const JobSpec& spec, json::object& values) {
  const FailureConfig& failure = spec.run_config.failure_config;
  if (failure.max_start_failures == failure.max_failures)
    values.at("run_config").at("failure_config").as_object().stable_erase("max_start_failures");
  const ScalingConfig& scaling = spec.scaling_config;
  if (scaling.resources_per_worker.gpu == (scaling.use_gpu ? 1 : 0))
    values.at("scaling_config").at("resources_per_worker").as_object().stable_erase("GPU");
}

}  // namespace

std::string resolved_yaml(const JobSpec& spec) {
  Printer printer(nullptr);
  json::object values = spec_values(spec, Escape::Interpolation);
  leave_out_computed(spec, values);
  printer.mapping(values, "", 0);
  return printer.take();
}

std::string annotated_yaml(const JobSpec& spec, const Reading& reading) {
  Printer printer(&reading);
  printer.mapping(spec_values(shown_spec(spec), Escape::Interpolation), "", 0);
  return redacted(printer.take());
}

std::string sweep_yaml(const std::optional<SearchSpec>& sweep) {
  if (!sweep) return "";
  Printer printer(nullptr);
  printer.mapping({{"sweep", sweep_values(*sweep)}}, "", 0);
  return printer.take();
}

std::string annotated_sweep_yaml(const std::optional<SearchSpec>& sweep, const Reading& reading) {
  if (!sweep) return "";
  Printer printer(&reading);
  printer.mapping({{"sweep", sweep_values(*sweep)}}, "", 0);
  return redacted(printer.take());
}

}  // namespace train::spec
