#include "launcher/spec/spec_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/spec/fields.h"
#include "launcher/spec/interpolate.h"
#include "lib/yaml/scalar.h"

namespace train::spec {
namespace {

namespace json = boost::json;

json::value number(double value) {
  if (!(value >= -1e15 && value <= 1e15)) return value;
  const auto whole = static_cast<std::int64_t>(value);
  if (static_cast<double>(whole) != value) return value;
  return whole;
}

json::value count_value(const WorkerCount& count) {
  if (count.automatic) return "auto";
  if (!count.elastic()) return count.max;
  return json::object{{"min", count.min}, {"max", count.max}};
}

json::value resources_value(const Resources& resources, bool with_gpu) {
  json::object object{{"CPU", number(resources.cpu)}};
  if (with_gpu) object["GPU"] = number(resources.gpu);
  if (resources.memory_bytes > 0) object["memory"] = yaml::format_size_yaml(resources.memory_bytes);
  for (const auto& [name, amount] : resources.custom) object[name] = number(amount);
  return object;
}

json::value maps_value(const std::vector<MapStep>& steps) {
  json::array array;
  for (const MapStep& step : steps) {
    if (step.arguments.empty())
      array.emplace_back(step.name);
    else
      array.push_back(json::object{{step.name, step.arguments}});
  }
  return array;
}

/// Writes a value, with one overload per type that a row's `at` can point to.
struct Writer {
  const Field& field;
  Escape escape;

  json::value text(const std::string& value) const {
    const bool escaped = escape == Escape::Interpolation && is_interpolated(field.kind);
    return json::string(escaped ? escape_interpolation(value) : value);
  }
  json::value operator()(std::monostate) const { return nullptr; }
  json::value operator()(const int* value) const { return *value; }
  json::value operator()(const std::optional<int>* value) const {
    return *value ? json::value(**value) : json::value();
  }
  json::value operator()(const std::optional<std::int64_t>* value) const {
    return *value ? json::value(**value) : json::value();
  }
  json::value operator()(const bool* value) const { return *value; }
  json::value operator()(const std::string* value) const {
    return value->empty() ? json::value() : text(*value);
  }
  json::value operator()(const std::optional<std::string>* value) const {
    return *value ? text(**value) : json::value();
  }
  json::value operator()(const Duration* value) const {
    return json::string(yaml::format_duration_yaml(*value));
  }
  json::value operator()(const std::vector<std::string>* list) const {
    if (field.kind == Kind::Paths && list->empty()) return nullptr;
    if (field.kind == Kind::Paths && list->size() == 1) return text(list->front());
    json::array array;
    for (const std::string& item : *list) array.push_back(text(item));
    return array;
  }
  json::value operator()(const std::vector<std::vector<std::string>>* commands) const {
    json::array array;
    for (const std::vector<std::string>& command : *commands) array.push_back((*this)(&command));
    return array;
  }
  json::value operator()(const RunConfig* config) const {
    json::array array(config->callbacks.begin(), config->callbacks.end());
    for (const std::vector<std::string>& command : config->callback_commands)
      array.push_back(json::object{{"command", (*this)(&command)}});
    return array;
  }
  json::value operator()(const std::map<std::string, std::string>* map) const {
    json::object object;
    for (const auto& [name, value] : *map) object[name] = text(value);
    return object;
  }
  json::value operator()(const json::object* object) const { return *object; }
  json::value operator()(const json::array* array) const { return *array; }
  json::value operator()(const WorkerCount* count) const { return count_value(*count); }
  json::value operator()(const Resources* resources) const {
    return resources_value(*resources, !field.path.starts_with("dataset_config."));
  }
  json::value operator()(const std::vector<StopCondition>* stop) const {
    json::object object;
    for (const StopCondition& rule : *stop) object[rule.metric] = number(rule.at_least);
    return object;
  }
  json::value operator()(const std::vector<NotifyRule>* rules) const {
    json::array array;
    for (const NotifyRule& rule : *rules) {
      json::object object{{"on", json::array(rule.on.begin(), rule.on.end())}};
      if (rule.webhook.empty())
        object["command"] = (*this)(&rule.command);
      else
        object["webhook"] = text(rule.webhook);
      array.push_back(std::move(object));
    }
    return array;
  }
  json::value operator()(const ScalingConfig* scaling) const {
    json::array roles;
    if (scaling->other_roles.empty() && scaling->role == ScalingConfig{}.role) return roles;
    roles.push_back(json::object{{"name", scaling->role}});
    for (const RoleSpec& role : scaling->other_roles) {
      json::object object{
          {"name", role.name},
          {"command", (*this)(&role.command)},
          {"num_workers", role.workers},
          {"resources_per_worker", resources_value(role.resources_per_worker, true)}};
      if (!role.env.empty()) object["env"] = (*this)(&role.env);
      json::object selector;
      for (const auto& [label, condition] : role.label_selector) selector[label] = condition;
      if (!selector.empty()) object["label_selector"] = std::move(selector);
      roles.push_back(std::move(object));
    }
    return roles;
  }
  json::value operator()(const std::optional<ImageSides>* sides) const {
    if (!*sides) return nullptr;
    return json::array{(*sides)->height, (*sides)->width};
  }
  json::value operator()(const DatasetSpec* dataset) const {
    if (field.kind == Kind::Maps) return maps_value(dataset->map);
    if (field.kind == Kind::Preprocessors) {
      if (dataset->preprocessors_from.empty()) return maps_value(dataset->preprocessors);
      return json::object{{"from", dataset->preprocessors_from}};
    }
    if (field.kind == Kind::OnError) {
      if (!dataset->skip_rows_max) return "fail";
      return json::object{{"rows", "skip"}, {"rows_max", *dataset->skip_rows_max}};
    }
    if (!dataset->shuffle) return false;
    json::object object{{"seed", dataset->shuffle_seed}};
    const DatasetSpec plain;
    if (dataset->shuffle_mode != plain.shuffle_mode)
      object["mode"] = kShuffleModes[static_cast<std::size_t>(dataset->shuffle_mode)];
    if (dataset->shuffle_window != plain.shuffle_window)
      object["window"] =
          yaml::format_size_yaml(static_cast<std::uint64_t>(dataset->shuffle_window));
    return object;
  }
  json::value operator()(const std::vector<LabelSelector>* selectors) const {
    json::array array;
    for (const LabelSelector& selector : *selectors) {
      json::object object;
      for (const auto& [label, condition] : selector) object[label] = json::string(condition);
      array.emplace_back(std::move(object));
    }
    if (array.empty()) return json::object();
    if (array.size() == 1) return array[0];
    return array;
  }
  json::value operator()(const ShipConfig* ship) const {
    if (!ship->on) return false;
    json::array patterns;
    for (const std::string& pattern : ship->files) patterns.emplace_back(pattern);
    if (ship->bytes_max == ShipConfig{}.bytes_max)
      return patterns.empty() ? json::value(true) : json::value(std::move(patterns));
    json::object object;
    if (!patterns.empty()) object["files"] = std::move(patterns);
    object["max"] = yaml::format_size_yaml(ship->bytes_max);
    return object;
  }
  json::value operator()(const Umask* umask) const {
    return json::string(fmt::format("{:03o}", umask->bits));
  }
  json::value operator()(const ResourceLimits* limits) const {
    json::object object;
    for (const auto& [name, value] : *limits)
      object[name] = value == kUnlimited ? json::value("unlimited") : json::value(value);
    return object;
  }
  json::value operator()(const std::map<std::string, Duration>* durations) const {
    json::object object;
    for (const auto& [name, value] : *durations)
      object[name] = json::string(yaml::format_duration_yaml(value));
    return object;
  }
  json::value operator()(const std::map<std::string, double>* weights) const {
    json::object object;
    for (const auto& [name, weight] : *weights) object[name] = weight;
    return object;
  }
  json::value operator()(const EnumRef& value) const {
    const std::string_view word = field.choices[static_cast<std::size_t>(value.get(value.where))];
    return json::string(word);
  }
};

/// Return whether a row of a dataset says nothing: its rows are those of others, or its own.
bool left_out_of_mix(std::string_view key, const DatasetSpec& dataset) {
  const bool of_mixes = key == "mix" || key == "stopping_condition" || key == "rows";
  if (dataset.mix.empty()) return of_mixes;
  if (key == "rows") return !dataset.rows;
  if (key == "stopping_condition") return dataset.rows.has_value();
  return !of_mixes && key != "split" && key != "on_change";
}

/// Return whether dataset_config says something of it that the dataset itself does not.
bool has_config(const DatasetSpec& dataset) {
  return dataset.balance || dataset.ingest.workers.max > 0;
}

bool left_out(const Field& field, const Target& target) {
  if (target.dataset != nullptr && field.path.starts_with("datasets.*.") &&
      left_out_of_mix(key_of(field), *target.dataset))
    return true;
  if (field.path == "run_config.name" || field.path == "extends" || field.path == "version" ||
      field.kind == Kind::Sweep)
    return true;
  const Backend backend = target.spec->backend;
  if (field.path == "backend_config")
    return backend != Backend::Torch && backend != Backend::Mpi && backend != Backend::Custom &&
           backend != Backend::Torchft;
  if (field.path == "backend_config.pmi") return backend != Backend::Mpi;
  const BackendConfig& config = target.spec->backend_config;
  if (field.path == "backend_config.publish") return config.publish.empty();
  if (field.path == "backend_config.on_start") return config.on_start.empty();
  if (field.path == "backend_config.on_training_start") return config.on_training_start.empty();
  if (field.path == "backend_config.on_shutdown") return config.on_shutdown.empty();
  if (field.path == "backend_config.hook_timeout" || field.path == "backend_config.ports")
    return backend != Backend::Custom;
  if (field.path == "backend_config.collectives" || field.path == "backend_config.timeout" ||
      field.path == "backend_config.deterministic")
    return backend != Backend::Torch && backend != Backend::Torchft;
  if (field.path == "backend_config.replica_groups" || field.path == "backend_config.min_replicas")
    return backend != Backend::Torchft;
  if (field.path == "backend_config.lighthouse") return config.lighthouse.empty();
  if (field.path == "setup") return target.spec->setup.empty();
  if (field.path == "per_node_setup") return target.spec->per_node_setup.command.empty();
  const ValidationConfig& validation = target.spec->run_config.checkpoint_config.validation;
  if (field.path == "run_config.checkpoint_config.validation") return validation.every == 0;
  if (field.path == "run_config.checkpoint_config.validation.command")
    return validation.command.empty();
  if (field.path == "dataset_config")
    return std::none_of(target.spec->datasets.begin(), target.spec->datasets.end(),
                        [](const auto& named) { return has_config(named.second); });
  if (field.path == "dataset_config.*.split") return true;
  if (field.path == "dataset_config.*.balance") return !target.dataset->balance;
  if (field.path == "dataset_config.*.ingest_workers" || field.path == "dataset_config.*.ingest")
    return target.dataset->ingest.workers.max == 0;
  if (field.path == "datasets.*.items") return target.dataset->format != DatasetFormat::Items;
  if (field.path == "datasets.*.path" || field.path == "datasets.*.columns")
    return target.dataset->format == DatasetFormat::Items;
  if (field.path == "datasets.*.schema") return target.dataset->schema.empty();
  if (field.path == "datasets.*.delimiter") return !target.dataset->delimiter;
  if (field.path == "datasets.*.newlines_in_values") return !target.dataset->newlines_in_values;
  if (field.path == "datasets.*.lanes") return !target.dataset->lanes;
  if (field.path == "datasets.*.filter") return target.dataset->filter.empty();
  if (field.path == "datasets.*.limit") return !target.dataset->limit;
  if (field.path == "datasets.*.labels") return target.dataset->format != DatasetFormat::Cifar;
  const bool images = target.dataset != nullptr && target.dataset->format == DatasetFormat::Images;
  if (field.path == "datasets.*.size") return !images || !target.dataset->size;
  if (field.path == "datasets.*.mode" || field.path == "datasets.*.include_paths") return !images;
  if (field.path == "datasets.*.map") return target.dataset->map.empty();
  if (field.path == "datasets.*.preprocessors") return target.dataset->preprocessors.empty();
  if (field.path == "datasets.*.on_error") return !target.dataset->skip_rows_max;
  return false;
}

json::object section_values(std::string_view section, const Target& target, Escape escape) {
  json::object object;
  for (const Field* field : fields_below(section)) {
    if (left_out(*field, target)) continue;
    if (field->kind == Kind::Section) {
      object[key_of(*field)] = section_values(field->path, target, escape);
    } else if (field->kind == Kind::Entries) {
      json::object entries;
      for (auto& [name, dataset] : target.spec->datasets) {
        if (field->path == "dataset_config" && !has_config(dataset)) continue;
        entries[name] =
            section_values(fmt::format("{}.*", field->path), {target.spec, &dataset}, escape);
      }
      object[key_of(*field)] = std::move(entries);
    } else {
      object[key_of(*field)] = spec_value(*field, target, escape);
    }
  }
  return object;
}

}  // namespace

json::value spec_value(const Field& field, const Target& target, Escape escape) {
  return std::visit(Writer{field, escape}, field.at(target));
}

json::object spec_values(const JobSpec& spec, Escape escape) {
  JobSpec copy = spec;  // rows point into a mutable job
  return section_values("", {&copy, nullptr}, escape);
}

}  // namespace train::spec
