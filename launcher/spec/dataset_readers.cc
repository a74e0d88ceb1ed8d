// Reads what is particular to datasets: sizes of pictures, maps and preprocessors with their
// arguments (against the tables of lib/model/built_in_maps.h and preprocessors.h), and what follows
// if a row is bad.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "launcher/spec/fields.h"
#include "launcher/spec/kind_readers.h"
#include "launcher/spec/section_reader.h"
#include "lib/model/preprocessors.h"
#include "lib/yaml/nearest.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

std::optional<ImageSides> two_sides(const Cursor& cursor, std::int64_t min, std::int64_t max) {
  const std::vector<Cursor> items = cursor.items();
  if (!cursor.node().is(Node::Kind::Sequence)) return std::nullopt;  // reported
  if (items.size() != 2) {
    cursor.error(fmt::format("has {} items, not the two of [height, width]", items.size()),
                 "write [224, 224]");
    return std::nullopt;
  }
  const auto height = items[0].integer(min, max);
  const auto width = items[1].integer(min, max);
  if (!height || !width) return std::nullopt;
  return ImageSides{static_cast<int>(*height), static_cast<int>(*width)};
}

std::optional<double> bounded_number(const Cursor& cursor, const MapArgument& argument) {
  const auto number = cursor.number(argument.min);
  if (!number || *number <= argument.max) return number;
  cursor.error(fmt::format("is {}, more than {}", cursor.node().text, argument.max),
               "write a smaller one");
  return std::nullopt;
}

std::vector<std::string> column_names(const Cursor& cursor, const MapArgument& argument) {
  const std::vector<Cursor> items = cursor.items();
  std::vector<std::string> names;
  if (!cursor.node().is(Node::Kind::Sequence)) return names;  // reported
  const auto count = static_cast<double>(items.size());
  if (count < argument.min || count > argument.max) {
    cursor.error(fmt::format("has {} items", items.size()),
                 fmt::format("write the names of 1 to {} columns", argument.max));
  }
  for (const Cursor& item : items) {
    auto name = item.text();
    if (!name) continue;
    if (name->empty()) item.error("is empty", "write a column's name");
    if (std::find(names.begin(), names.end(), *name) != names.end())
      item.error(fmt::format("is {} again", in_quotes(*name)), "remove it");
    names.push_back(std::move(*name));
  }
  return names;
}

/// Return a number, a text, true or false, with its type in YAML; null after a mistake.
boost::json::value scalar_value(const Cursor& cursor) {
  if (!cursor.node().is(Node::Kind::Scalar)) {
    cursor.error(fmt::format("is {}", yaml::describe(cursor.node().kind)),
                 "write a number, a text, true or false");
    return nullptr;
  }
  return scalar_to_json(cursor);
}

/// Return the argument's value, or null after a mistake.
boost::json::value argument_value(const Cursor& cursor, const MapArgument& argument) {
  const auto min = static_cast<std::int64_t>(argument.min);
  const auto max = static_cast<std::int64_t>(argument.max);
  switch (argument.kind) {
    case MapArgumentKind::Column: {
      const auto text = cursor.text();
      if (text && text->empty()) cursor.error("is empty", "write a column's name");
      return text ? boost::json::value(*text) : nullptr;
    }
    case MapArgumentKind::Columns: {
      boost::json::array names;
      for (const std::string& name : column_names(cursor, argument)) names.emplace_back(name);
      return names;
    }
    case MapArgumentKind::Scalar:
      return scalar_value(cursor);
    case MapArgumentKind::Sides: {
      const auto size = two_sides(cursor, min, max);
      return size ? boost::json::value{size->height, size->width} : nullptr;
    }
    case MapArgumentKind::Choice: {
      const auto index = cursor.choice(argument.choices);
      return index ? boost::json::value(argument.choices[*index]) : nullptr;
    }
    case MapArgumentKind::Integer: {
      const auto number = cursor.integer(min, max);
      return number ? boost::json::value(*number) : nullptr;
    }
    case MapArgumentKind::Number: {
      const auto number = bounded_number(cursor, argument);
      return number ? boost::json::value(*number) : nullptr;
    }
    case MapArgumentKind::Numbers: {
      boost::json::array numbers;
      const std::vector<Cursor> items = cursor.items();
      if (cursor.node().is(Node::Kind::Sequence) &&
          (items.empty() || std::cmp_greater(items.size(), kMapNumbersMax))) {
        cursor.error(fmt::format("has {} items", items.size()),
                     fmt::format("write 1 to {} numbers", kMapNumbersMax));
      }
      for (const Cursor& item : items) {
        if (const auto number = bounded_number(item, argument)) numbers.emplace_back(*number);
      }
      return numbers;
    }
  }
  return nullptr;
}

std::vector<std::string_view> argument_names(const BuiltInMap& map) {
  std::vector<std::string_view> names;
  for (const MapArgument& argument : map.arguments) names.push_back(argument.name);
  return names;
}

void check_required(const Cursor& cursor, const BuiltInMap& map,
                    const boost::json::object& arguments) {
  for (const MapArgument& argument : map.arguments) {
    if (argument.required && !arguments.contains(argument.name)) {
      cursor.error(fmt::format("has no {}, which it needs", argument.name),
                   fmt::format("its arguments are: {}", fmt::join(argument_names(map), ", ")));
    }
  }
}

void read_arguments(Reading& reading, const Cursor& cursor, const BuiltInMap& map,
                    boost::json::object& arguments) {
  const std::vector<std::string_view> known = argument_names(map);
  if (!cursor.is_null()) {
    for (const Cursor::Entry& entry : cursor.entries()) {
      const auto found =
          std::find_if(map.arguments.begin(), map.arguments.end(),
                       [&](const MapArgument& argument) { return argument.name == entry.key; });
      if (found == map.arguments.end()) {
        report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, known);
      } else if (!entry.value.is_null()) {
        arguments[entry.key] = argument_value(entry.value, *found);
      }
    }
    if (!cursor.node().is(Node::Kind::Map)) return;
  }
  check_required(cursor, map, arguments);
}

/// A name that is no built-in map's is one that the program registers; it may be a slip, too.
bool read_map_name(Reading& reading, const yaml::Position& at, const std::string& path,
                   std::string_view name) {
  if (!is_name(name)) {
    reading.diagnostics.error(
        at, fmt::format("{} is {}, which is not a valid name of a map", path, in_quotes(name)),
        "use letters, digits, '.', '_' and '-', at most 128, a letter or digit first");
    return false;
  }
  if (built_in_map(name) != nullptr) return true;
  std::vector<std::string_view> known;
  for (const BuiltInMap& map : kBuiltInMaps) known.push_back(map.name);
  if (const std::string_view near = yaml::nearest(name, known); !near.empty()) {
    reading.diagnostics.warning(
        at,
        fmt::format("{} is {}, which is no built-in map: the program must register it", path,
                    in_quotes(name)),
        fmt::format("did you mean {}?", near));
  }
  return true;
}

void read_step(Reading& reading, const Cursor& cursor, std::vector<MapStep>& steps) {
  const Node& node = cursor.node();
  if (node.is(Node::Kind::Scalar)) {
    if (!read_map_name(reading, cursor.at(), cursor.path(), node.text)) return;
    MapStep& step = steps.emplace_back(MapStep{.name = node.text, .arguments = {}});
    const BuiltInMap* map = built_in_map(step.name);
    if (map == nullptr) return;
    const bool needs = std::any_of(map->arguments.begin(), map->arguments.end(),
                                   [](const MapArgument& argument) { return argument.required; });
    if (needs)
      cursor.error(
          fmt::format("is {}, which needs arguments", in_quotes(step.name)),
          fmt::format(
              "write {}: {{{}: …}}", step.name,
              std::find_if(map->arguments.begin(), map->arguments.end(), [](const MapArgument& a) {
                return a.required;
              })->name));
    return;
  }
  const std::vector<Cursor::Entry> entries =
      node.is(Node::Kind::Map) ? cursor.entries() : std::vector<Cursor::Entry>();
  if (entries.size() != 1) {
    return cursor.error(node.is(Node::Kind::Map)
                            ? fmt::format("has {} maps", entries.size())
                            : fmt::format("is {}, not a map", yaml::describe(node.kind)),
                        "write each map as an item of the list: a name, or {name: {arguments}}");
  }
  const Cursor::Entry& entry = entries.front();
  if (!read_map_name(reading, entry.key_at, cursor.path(), entry.key)) return;
  MapStep& step = steps.emplace_back(MapStep{.name = std::string(entry.key), .arguments = {}});
  if (const BuiltInMap* map = built_in_map(entry.key))
    read_arguments(reading, entry.value, *map, step.arguments);
  else if (!entry.value.is_null())
    read_free(reading, entry.value, step.arguments);
}

/// A list of columns in place of arguments means {columns: …}.
void read_preprocessor_arguments(Reading& reading, const Cursor& cursor, const BuiltInMap& table,
                                 boost::json::object& arguments) {
  const MapArgument& first = table.arguments.front();
  if (first.kind != MapArgumentKind::Columns || !cursor.node().is(Node::Kind::Sequence))
    return read_arguments(reading, cursor, table, arguments);
  arguments[first.name] = argument_value(cursor, first);
  check_required(cursor, table, arguments);
}

void check_preprocessor(const Cursor& cursor, const MapStep& step) {
  if (step.name != "simple_imputer") return;
  const auto* strategy = step.arguments.if_contains("strategy");
  const bool constant = strategy != nullptr && *strategy == "constant";
  if (constant && !step.arguments.contains("fill_value"))
    cursor.error("has no fill_value, which strategy: constant needs", "write fill_value: 0");
  if (!constant && step.arguments.contains("fill_value"))
    cursor.error("has a fill_value, which only strategy: constant takes",
                 "write strategy: constant, or remove it");
}

void read_preprocessor(Reading& reading, const Cursor& cursor, std::vector<MapStep>& steps) {
  const std::vector<Cursor::Entry> entries =
      cursor.node().is(Node::Kind::Map) ? cursor.entries() : std::vector<Cursor::Entry>();
  if (entries.size() != 1) {
    return cursor.error(cursor.node().is(Node::Kind::Map)
                            ? fmt::format("has {} preprocessors", entries.size())
                            : fmt::format("is {}", yaml::describe(cursor.node().kind)),
                        "write each preprocessor as an item of the list: standard_scaler: [age]");
  }
  const Cursor::Entry& entry = entries.front();
  const BuiltInMap* table = preprocessor(entry.key);
  if (table == nullptr) {
    std::vector<std::string_view> known;
    for (const BuiltInMap& one : kPreprocessors) known.push_back(one.name);
    const std::string_view near = yaml::nearest(entry.key, known);
    return reading.diagnostics.error(
        entry.key_at,
        fmt::format("{} is {}, which is not a preprocessor", cursor.path(), in_quotes(entry.key)),
        near.empty() ? fmt::format("there are: {}", fmt::join(known, ", "))
                     : fmt::format("did you mean {}?", near));
  }
  MapStep& step = steps.emplace_back(MapStep{.name = std::string(entry.key), .arguments = {}});
  read_preprocessor_arguments(reading, entry.value, *table, step.arguments);
  check_preprocessor(entry.value, step);
}

void read_from(Reading& reading, const Cursor& cursor, DatasetSpec& dataset) {
  constexpr std::array<std::string_view, 2> kKeys{"from", "without"};
  MapFrom from;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.key == "from") {
      reading.remember(entry.value);
      if (const auto text = entry.value.text()) from.dataset = *text;
    } else if (entry.key == "without") {
      if (entry.value.is_null()) continue;
      for (const Cursor& item : entry.value.items()) {
        reading.remember(item);
        if (auto text = item.text()) from.without.push_back(std::move(*text));
      }
    } else {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
    }
  }
  if (reading.given(cursor.path() + ".from") == nullptr)
    return cursor.error("has no from", "write {from: train}, or a list of maps");
  dataset.map_from = std::move(from);
}

}  // namespace

void read_sides(const Cursor& cursor, const Field& field, std::optional<ImageSides>& sides) {
  sides = two_sides(cursor, field.min, field.max);
}

void read_maps(Reading& reading, const Cursor& cursor, const Field& field, DatasetSpec& dataset) {
  if (cursor.node().is(Node::Kind::Map)) return read_from(reading, cursor, dataset);
  const std::vector<Cursor> items = cursor.items();
  if (std::cmp_greater(items.size(), field.max))
    return cursor.error(fmt::format("has {} items, and may have {}", items.size(), field.max),
                        "do more in one registered map");
  for (const Cursor& item : items) read_step(reading, item, dataset.map);
}

void read_mix(Reading& reading, const Cursor& cursor, const Field& field,
              std::map<std::string, double>& mix) {
  const std::vector<Cursor::Entry> entries = cursor.entries();
  if (!cursor.node().is(Node::Kind::Map)) return;  // reported
  if (entries.empty() || std::cmp_greater(entries.size(), field.max))
    return cursor.error(fmt::format("has {} datasets", entries.size()),
                        fmt::format("write 1 to {}, as {{name: weight}}", field.max));
  for (const Cursor::Entry& entry : entries) {
    reading.remember(entry.value);
    const auto weight = entry.value.number();
    if (!weight) continue;
    mix[std::string(entry.key)] = *weight;
    if (*weight <= 0)
      entry.value.error(fmt::format("is {}, not above 0", entry.value.node().text),
                        "write how often its rows come, beside the weights of the others");
  }
}

void read_preprocessors(Reading& reading, const Cursor& cursor, const Field& field,
                        DatasetSpec& dataset) {
  if (cursor.node().is(Node::Kind::Map)) {
    constexpr std::array<std::string_view, 1> kKeys{"from"};
    for (const Cursor::Entry& entry : cursor.entries()) {
      if (entry.key != "from") {
        report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
        continue;
      }
      reading.remember(entry.value);
      if (const auto text = entry.value.text()) dataset.preprocessors_from = *text;
    }
    if (reading.given(cursor.path() + ".from") == nullptr)
      cursor.error("has no from", "write {from: train}, or a list of preprocessors");
    return;
  }
  const std::vector<Cursor> items = cursor.items();
  if (std::cmp_greater(items.size(), field.max))
    return cursor.error(fmt::format("has {} items, and may have {}", items.size(), field.max),
                        "give one preprocessor several columns");
  for (const Cursor& item : items) read_preprocessor(reading, item, dataset.preprocessors);
}

void read_on_error(Reading& reading, const Cursor& cursor, const Field& field,
                   DatasetSpec& dataset) {
  constexpr std::string_view kHint = "write fail, or {rows: skip, rows_max: 100}";
  if (!cursor.node().is(Node::Kind::Map)) {
    if (cursor.node().is(Node::Kind::Scalar) && cursor.node().text == "fail") return;
    return cursor.error(cursor.node().is(Node::Kind::Scalar)
                            ? fmt::format("is {}", in_quotes(cursor.node().text))
                            : fmt::format("is {}", yaml::describe(cursor.node().kind)),
                        std::string(kHint));
  }
  constexpr std::array<std::string_view, 2> kKeys{"rows", "rows_max"};
  constexpr std::array<std::string_view, 1> kRows{"skip"};
  bool rows = false, rows_max = false;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.key == "rows") {
      rows = true;
      entry.value.choice(kRows);
    } else if (entry.key == "rows_max") {
      rows_max = true;
      if (const auto value = entry.value.integer(field.min, field.max))
        dataset.skip_rows_max = static_cast<int>(*value);
    } else {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
      continue;
    }
    reading.remember(entry.value);
  }
  if (!rows || !rows_max)
    cursor.error(fmt::format("has no {}", rows ? "rows_max" : "rows"), std::string(kHint));
}

}  // namespace train::spec
