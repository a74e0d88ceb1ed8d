#include "launcher/spec/section_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/spec/fields.h"
#include "launcher/spec/kind_readers.h"
#include "launcher/spec/sweep_reader.h"
#include "lib/yaml/nearest.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;

void read_section(Reading& reading, const Cursor& cursor, std::string_view section,
                  const Target& target);

void read_choice(const Cursor& cursor, const Field& field, const Target& target) {
  // As Ray's users write it: what it holds belongs below backend_config.
  if (field.path == "backend" && cursor.node().is(yaml::Node::Kind::Map) &&
      cursor.node().find("custom") != nullptr)
    return cursor.error("is a mapping",
                        "write backend: custom, and the commands below backend_config");
  const auto index = cursor.choice(field.choices);
  if (!index) return;
  const FieldRef ref = field.at(target);
  if (const auto* text = std::get_if<std::string*>(&ref)) {
    **text = field.choices[*index];
  } else {
    const EnumRef& value = std::get<EnumRef>(ref);
    value.set(value.where, static_cast<int>(*index));
  }
}

void read_integer(const Cursor& cursor, const Field& field, const FieldRef& ref) {
  const auto value = cursor.integer(field.min, field.max);
  if (!value) return;
  if (const auto* optional = std::get_if<std::optional<int>*>(&ref)) {
    **optional = static_cast<int>(*value);
  } else if (const auto* wide = std::get_if<std::optional<std::int64_t>*>(&ref)) {
    **wide = *value;
  } else {
    *std::get<int*>(ref) = static_cast<int>(*value);
  }
}

void read_text(const Cursor& cursor, const Field& field, const FieldRef& ref) {
  auto value = cursor.text();
  if (!value) return;
  if (value->empty()) return cursor.error("is empty", "write a text, or remove the key");
  if (std::cmp_greater(value->size(), field.max))
    return cursor.error(fmt::format("has {} bytes, and may have {}", value->size(), field.max),
                        "write a shorter one");
  if (auto* text = std::get_if<std::string*>(&ref))
    **text = std::move(*value);
  else
    *std::get<std::optional<std::string>*>(ref) = std::move(*value);
}

void read_run_name(Reading& reading, const Cursor& cursor, const FieldRef& ref) {
  const auto value = read_name(reading, cursor);
  if (!value) return;
  std::string& name = *std::get<std::string*>(ref);
  if (!name.empty() && name != *value) {
    const Origin* other = reading.given("name");
    cursor.error(
        fmt::format("is {}, and the top-level name is {}", in_quotes(*value), in_quotes(name)),
        fmt::format("remove one of them; the other is on {}", other->at.seen_from(cursor.at())));
    return;
  }
  name = *value;
}

void read_entries(Reading& reading, const Cursor& cursor, const Field& field,
                  const Target& target) {
  const bool defines = field.path == "datasets";
  auto& datasets = target.spec->datasets;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (defines) {
      if (!is_name(entry.key)) {
        reading.diagnostics.error(
            entry.key_at, fmt::format("{} is not a valid dataset name", in_quotes(entry.key)),
            "use letters, digits, '.', '_' and '-', at most 128, a letter or digit first");
        continue;
      }
      datasets[std::string(entry.key)].split = entry.key == "train";
    } else if (datasets.count(std::string(entry.key)) == 0) {
      if (reading.diagnostics.has_enough()) return;  // each key is compared with every dataset
      std::vector<std::string_view> known;
      known.reserve(datasets.size());
      for (const auto& [name, dataset] : datasets) known.push_back(name);
      reading.diagnostics.error(
          entry.key_at,
          fmt::format("{} is not the name of a dataset in datasets", entry.value.path()),
          known.empty() ? "add the dataset first" : yaml::suggest(entry.key, known));
      continue;
    }
    DatasetSpec& dataset = datasets[std::string(entry.key)];
    const bool split_before = dataset.split;
    reading.origins[entry.value.path()] = {entry.key_at, {}};
    if (!entry.value.is_null()) {
      read_section(reading, entry.value, fmt::format("{}.*", field.path), {target.spec, &dataset});
    }
    const Origin* first = reading.given(fmt::format("datasets.{}.split", entry.key));
    const Origin* second = reading.given(fmt::format("dataset_config.{}.split", entry.key));
    if (!defines && first != nullptr && second != nullptr && dataset.split != split_before) {
      reading.diagnostics.error(
          second->at,
          fmt::format("dataset_config.{0}.split is {1}, and datasets.{0}.split is {2}", entry.key,
                      dataset.split, split_before),
          fmt::format("remove one of them; the other is on {}", first->at.seen_from(second->at)));
    }
  }
}

void read_field(Reading& reading, const yaml::Position& key_at, const Cursor& cursor,
                const Field& field, const Target& target) {
  if (cursor.is_null()) return;  // `key:` without a value keeps the default
  const FieldRef ref = field.at(target);
  reading.remember(cursor);
  // A block begins at its first key, but mistakes about the whole block are shown at its own key.
  if (!cursor.node().is(yaml::Node::Kind::Scalar)) reading.origins[cursor.path()].at = key_at;
  switch (field.kind) {
    case Kind::Section:
      return read_section(reading, cursor, field.path, target);
    case Kind::Entries:
      return read_entries(reading, cursor, field, target);
    case Kind::Version:
      cursor.integer(1, 1);
      return;
    case Kind::Extends:
      return;
    case Kind::Name:
      return read_run_name(reading, cursor, ref);
    case Kind::Text:
      return read_text(cursor, field, ref);
    case Kind::Path:
      if (auto path = read_path(reading, cursor)) *std::get<std::string*>(ref) = std::move(*path);
      return;
    case Kind::Paths:
      return read_paths(reading, cursor, *std::get<std::vector<std::string>*>(ref));
    case Kind::Storage:
      if (auto location = read_storage(reading, cursor))
        *std::get<std::string*>(ref) = std::move(*location);
      return;
    case Kind::Command:
      return read_command(reading, cursor, *std::get<std::vector<std::string>*>(ref));
    case Kind::Commands:
      return read_commands(reading, cursor, field,
                           *std::get<std::vector<std::vector<std::string>>*>(ref));
    case Kind::Environment:
      return read_environment(reading, cursor, *std::get<std::map<std::string, std::string>*>(ref));
    case Kind::Free:
      return read_free(reading, cursor, *std::get<boost::json::object*>(ref));
    case Kind::Items:
      return read_items(reading, cursor, *std::get<boost::json::array*>(ref));
    case Kind::Choice:
      return read_choice(cursor, field, target);
    case Kind::ChoiceList:
    case Kind::TextList:
      return read_list(cursor, field, *std::get<std::vector<std::string>*>(ref));
    case Kind::Nodes:
      return read_nodes(reading, cursor, *std::get<std::vector<std::string>*>(ref));
    case Kind::Integer:
      return read_integer(cursor, field, ref);
    case Kind::Boolean:
      if (const auto value = cursor.boolean()) *std::get<bool*>(ref) = *value;
      return;
    case Kind::Duration:
      if (const auto value = cursor.duration(milliseconds(field.min), milliseconds(field.max)))
        *std::get<Duration*>(ref) = *value;
      return;
    case Kind::Count:
      return read_count(reading, cursor, field, *std::get<WorkerCount*>(ref));
    case Kind::Resources:
      return read_resources(reading, cursor, *std::get<Resources*>(ref));
    case Kind::Stop:
      return read_stop(reading, cursor, *std::get<std::vector<StopCondition>*>(ref));
    case Kind::Callbacks:
      return read_callbacks(reading, cursor, field, *std::get<RunConfig*>(ref));
    case Kind::Notify:
      return read_notify(reading, cursor, field, *std::get<std::vector<NotifyRule>*>(ref));
    case Kind::Types:
      return read_types(reading, cursor, *std::get<std::map<std::string, std::string>*>(ref));
    case Kind::Durations:
      return read_durations(reading, cursor, field,
                            *std::get<std::map<std::string, Duration>*>(ref));
    case Kind::Ship:
      return read_ship(reading, cursor, *std::get<ShipConfig*>(ref));
    case Kind::Shuffle:
      return read_shuffle(reading, cursor, *std::get<DatasetSpec*>(ref));
    case Kind::Sides:
      return read_sides(cursor, field, *std::get<std::optional<ImageSides>*>(ref));
    case Kind::Maps:
      return read_maps(reading, cursor, field, *std::get<DatasetSpec*>(ref));
    case Kind::Mix:
      return read_mix(reading, cursor, field, *std::get<std::map<std::string, double>*>(ref));
    case Kind::Preprocessors:
      return read_preprocessors(reading, cursor, field, *std::get<DatasetSpec*>(ref));
    case Kind::OnError:
      return read_on_error(reading, cursor, field, *std::get<DatasetSpec*>(ref));
    case Kind::Filter:
      return read_filter(cursor, *std::get<std::string*>(ref));
    case Kind::Roles:
      return read_roles(reading, cursor, *std::get<ScalingConfig*>(ref),
                        [&](std::string_view path, const yaml::Position& at, const Cursor& value) {
                          for (const Field& other : fields())
                            if (other.path == path) read_field(reading, at, value, other, target);
                        });
    case Kind::Labels:
      return read_labels(reading, cursor, *std::get<std::vector<LabelSelector>*>(ref));
    case Kind::Gpus:
      return read_gpus(reading, cursor, *std::get<std::vector<std::string>*>(ref));
    case Kind::Umask:
      return read_umask(cursor, *std::get<Umask*>(ref));
    case Kind::Limits:
      return read_limits(reading, cursor, *std::get<ResourceLimits*>(ref));
    case Kind::Sweep:
      return read_sweep(reading, cursor);
  }
}

void read_section(Reading& reading, const Cursor& cursor, std::string_view section,
                  const Target& target) {
  const std::vector<const Field*> rows = fields_below(section);
  const std::vector<Cursor::Entry> entries = cursor.entries();
  for (const Cursor::Entry& entry : entries) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const Field* f) { return key_of(*f) == entry.key; });
    if (const RemovedKey* removed = row == rows.end() ? removed_key(section, entry.key) : nullptr) {
      reading.diagnostics.error(entry.key_at, fmt::format("{} is not offered", entry.value.path()),
                                fmt::format("removed in Ray, too: {}", removed->what_to_do));
    } else if (row == rows.end() && !(section.empty() && entry.key.starts_with("x-"))) {
      std::vector<std::string_view> known;
      for (const Field* field : rows) known.push_back(key_of(*field));
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, known);
    }
  }
  // Follow the table's order, not the text's: later rows look at earlier ones.
  for (const Field* field : rows) {
    const auto entry = std::find_if(entries.begin(), entries.end(), [&](const Cursor::Entry& e) {
      return e.key == key_of(*field);
    });
    if (entry != entries.end()) read_field(reading, entry->key_at, entry->value, *field, target);
  }
}

/// Return "a: {b: ...}" for "a.b".
std::string nested(std::string_view key) {
  std::string start, end;
  for (const char c : key) {
    start += c == '.' ? ": {" : std::string(1, c);
    if (c == '.') end += '}';
  }
  return fmt::format("{}: ...{}", start, end);
}

/// Return what to write in place of an unknown key. Only --set takes keys with dots.
std::string known_key_hint(std::string_view key, std::span<const std::string_view> known) {
  const std::string_view first = key.substr(0, key.find('.'));
  if (first.size() < key.size() && std::find(known.begin(), known.end(), first) != known.end())
    return fmt::format("write {}", nested(key));
  const std::string_view near = yaml::nearest(key, known);
  return near.empty() ? fmt::format("known keys are: {}", fmt::join(known, ", "))
                      : fmt::format("did you mean {}?", near);
}

}  // namespace

void report_unknown_key(Reading& reading, const yaml::Position& at, std::string_view section,
                        std::string_view key, std::span<const std::string_view> known) {
  reading.diagnostics.error(
      at,
      fmt::format("{} is not a key of {}", in_quotes(key), section.empty() ? "the spec" : section),
      known_key_hint(key, known));
}

void read_spec(Reading& reading, const yaml::Node& root, JobSpec& spec) {
  const Cursor top(root, "", reading.diagnostics);
  if (!top.is_null()) read_section(reading, top, "", {&spec, nullptr});
}

}  // namespace train::spec
