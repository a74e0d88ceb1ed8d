// Reads kinds that hold numbers or any values: counts, resources, stop rules, shuffle, free
// mappings, rows.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "launcher/spec/fields.h"
#include "launcher/spec/kind_readers.h"
#include "launcher/spec/section_reader.h"
#include "lib/model/column_type.h"
#include "lib/model/row_filter.h"
#include "lib/yaml/nearest.h"
#include "lib/yaml/scalar.h"

namespace train::spec {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

boost::json::value scalar_to_json(const Cursor& cursor) {
  const Node& node = cursor.node();
  if (node.quoted) return boost::json::string(node.text);
  if (yaml::is_core_null(node.text)) return nullptr;
  if (const auto value = yaml::core_bool(node.text)) return *value;
  if (const auto integer = yaml::core_integer(node.text)) {
    if (const auto value = integer->as_int64()) return *value;
    cursor.error(fmt::format("is {}, which does not fit 64 bits with a sign", node.text),
                 "write it in quotes, or as a float");
    return nullptr;
  }
  if (const auto number = yaml::core_number(node.text)) {
    if (!std::isfinite(*number)) {
      cursor.error(fmt::format("is {}, which JSON cannot carry to the workers", node.text),
                   "write a finite number, or a text in quotes");
      return nullptr;
    }
    return *number;
  }
  return boost::json::string(node.text);
}

// The reader's limit bounds the depth. Only leaves are remembered.
boost::json::value read_value(Reading& reading, const Cursor& cursor) {
  switch (cursor.node().kind) {
    case Node::Kind::Null:
      reading.remember(cursor);
      return nullptr;
    case Node::Kind::Scalar:
      reading.remember(cursor);
      return scalar_to_json(cursor);
    case Node::Kind::Sequence: {
      boost::json::array array;
      for (const Cursor& item : cursor.items()) array.push_back(read_value(reading, item));
      reading.remember(cursor);
      return array;
    }
    case Node::Kind::Map: {
      boost::json::object object;
      for (const Cursor::Entry& entry : cursor.entries())
        object[entry.key] = read_value(reading, entry.value);
      reading.remember(cursor);
      return object;
    }
  }
  return nullptr;
}

void read_free(Reading& reading, const Cursor& cursor, boost::json::object& object) {
  for (const Cursor::Entry& entry : cursor.entries())
    object[entry.key] = read_value(reading, entry.value);
}

void read_items(Reading& reading, const Cursor& cursor, boost::json::array& items) {
  for (const Cursor& row : cursor.items()) {
    if (reading.diagnostics.has_enough()) return;  // a row may lack every column of the first
    if (!row.node().is(Node::Kind::Map)) {
      row.error(fmt::format("is {}, not a mapping", yaml::describe(row.node().kind)),
                "write each row as {column: value}");
      continue;
    }
    boost::json::value value = read_value(reading, row);
    if (!items.empty()) {
      const boost::json::object& first = items[0].as_object();
      for (const auto& [column, ignored] : first) {
        if (!value.as_object().contains(column)) {
          row.error(fmt::format("has no column {}, which the first row has",
                                in_quotes(std::string_view(column))),
                    "give each row the same columns; null is a value");
        }
      }
      for (const auto& [column, ignored] : value.as_object()) {
        if (!first.contains(column)) {
          row.error(fmt::format("has a column {}, which the first row lacks",
                                in_quotes(std::string_view(column))),
                    "give each row the same columns; null is a value");
        }
      }
    }
    items.push_back(std::move(value));
  }
}

void read_count(Reading& reading, const Cursor& cursor, const Field& field, WorkerCount& count) {
  if (!cursor.node().is(Node::Kind::Map)) {
    if (cursor.node().is(Node::Kind::Sequence))
      return cursor.error("is a list, not a number or {min, max}", "write 8, or {min: 4, max: 8}");
    if (!field.choices.empty() && !cursor.node().quoted && cursor.node().text == "auto") {
      count = {.automatic = true};
      return;
    }
    if (const auto number = cursor.integer(field.min, field.max)) {
      count = {static_cast<int>(*number), static_cast<int>(*number)};
    }
    return;
  }
  const std::int64_t least = std::max<std::int64_t>(field.min, 1);  // 0 is possible only alone
  std::optional<std::int64_t> min;
  std::optional<std::int64_t> max;
  bool max_is_there = false;
  bool min_is_there = false;
  constexpr std::array<std::string_view, 2> kKeys{"min", "max"};
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.key == "min") {
      min_is_there = true;
      min = entry.value.integer(least, field.max);
    } else if (entry.key == "max") {
      max_is_there = true;
      max = entry.value.integer(least, field.max);
    } else {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
      continue;
    }
    reading.remember(entry.value);
  }
  if (!min_is_there || !max_is_there) {
    cursor.error(fmt::format("has no {}", min_is_there ? "max" : "min"),
                 "write {min: 4, max: 8}, or a number");
  }
  if (!min || !max) return;
  if (*min > *max) {
    const yaml::Position at = reading.given(cursor.path() + ".min")->at;
    const yaml::Position other = reading.given(cursor.path() + ".max")->at;
    reading.diagnostics.error(
        at,
        fmt::format("{0}.min is {1}, more than {0}.max, which is {2}", cursor.path(), *min, *max),
        fmt::format("lower it to {} or less, or raise max ({})", *max, other.seen_from(at)));
    return;
  }
  count = {static_cast<int>(*min), static_cast<int>(*max)};
}

constexpr double kGpuPartMin = 0.01;

void read_resources(Reading& reading, const Cursor& cursor, Resources& resources) {
  constexpr std::array<std::string_view, 3> kKnown{"CPU", "GPU", "memory"};
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.value.is_null()) continue;
    reading.remember(entry.value);
    if (entry.key == "memory") {
      if (const auto bytes = entry.value.size()) resources.memory_bytes = *bytes;
      continue;
    }
    std::string lower(entry.key);
    for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const std::string_view meant = lower == "cpu"      ? kKnown[0]
                                   : lower == "gpu"    ? kKnown[1]
                                   : lower == "memory" ? kKnown[2]
                                                       : "";
    if (!meant.empty() && meant != entry.key) {
      reading.diagnostics.error(
          entry.key_at,
          fmt::format("{} is not a known resource: names are case-sensitive", entry.value.path()),
          fmt::format("write {}", meant));
      continue;
    }
    if (!is_name(entry.key)) {
      reading.diagnostics.error(
          entry.key_at, fmt::format("{} is not a valid resource name", in_quotes(entry.key)),
          "use letters, digits, '.', '_' and '-', at most 128, a letter or digit first");
      continue;
    }
    const auto amount = entry.value.number(0);
    if (!amount) continue;
    if (entry.key == "CPU") {
      resources.cpu = *amount;
    } else if (entry.key == "GPU") {
      if (std::floor(*amount) != *amount && (*amount > 1 || *amount < kGpuPartMin)) {
        entry.value.error(fmt::format("is {}: a worker has whole GPUs, or a part of one",
                                      entry.value.node().text),
                          fmt::format("write a whole number, or one from {} to 1", kGpuPartMin));
      }
      resources.gpu = *amount;
    } else {
      resources.custom[std::string(entry.key)] = *amount;
    }
  }
}

void read_stop(Reading& reading, const Cursor& cursor, std::vector<StopCondition>& stop) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.key.empty()) {
      reading.diagnostics.error(entry.key_at, "a stop rule has no metric", "write metric: value");
      continue;
    }
    reading.remember(entry.value);
    if (const auto value = entry.value.number()) stop.push_back({std::string(entry.key), *value});
  }
}

void read_types(Reading& reading, const Cursor& cursor, std::map<std::string, std::string>& types) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.value.is_null()) continue;
    reading.remember(entry.value);
    const auto type = entry.value.text();
    if (!type) continue;
    if (std::find(kColumnTypes.begin(), kColumnTypes.end(), *type) == kColumnTypes.end()) {
      const std::string_view near = yaml::nearest(*type, kColumnTypes);
      entry.value.error(fmt::format("is {}, which is no type of a column", in_quotes(*type)),
                        near.empty() ? fmt::format("write one of {}", fmt::join(kColumnTypes, ", "))
                                     : fmt::format("did you mean {}?", near));
      continue;
    }
    types[std::string(entry.key)] = *type;
  }
}

void read_durations(Reading& reading, const Cursor& cursor, const Field& field,
                    std::map<std::string, Duration>& durations) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (entry.value.is_null()) continue;
    reading.remember(entry.value);
    if (const auto value = entry.value.duration(milliseconds(field.min), milliseconds(field.max)))
      durations[std::string(entry.key)] = *value;
  }
}

void read_umask(const Cursor& cursor, Umask& umask) {
  const auto text = cursor.text();
  if (!text) return;
  std::string_view digits = *text;
  if (digits.size() == 4 && digits.front() == '0') digits.remove_prefix(1);
  if (digits.size() != 3 || digits.find_first_not_of("01234567") != std::string_view::npos)
    return cursor.error(fmt::format("is {}, not three octal digits", in_quotes(*text)),
                        "write 077, or 027 for a group that may read");
  int bits = 0;
  std::from_chars(digits.begin(), digits.end(), bits, 8);
  if ((bits & 0700) != 0)
    return cursor.error(fmt::format("is {}, which takes the owner's own access away", *text),
                        "write 0 as its first digit");
  umask.bits = bits;
}

void read_limits(Reading& reading, const Cursor& cursor, ResourceLimits& limits) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    const auto known = limit_names();
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, known);
      continue;
    }
    if (entry.value.is_null()) continue;
    reading.remember(entry.value);
    if (entry.value.node().text == "unlimited") {
      limits[std::string(entry.key)] = kUnlimited;
    } else if (const auto value =
                   entry.value.integer(0, std::numeric_limits<std::int64_t>::max())) {
      limits[std::string(entry.key)] = *value;
    }
  }
}

namespace {

constexpr std::uint64_t kWindowBytesMin = 1u << 20;
constexpr std::uint64_t kWindowBytesMax = std::uint64_t{1} << 40;

void read_shuffle_mode(const Cursor& cursor, ShuffleMode& mode) {
  if (const auto index = cursor.choice(kShuffleModes)) mode = static_cast<ShuffleMode>(*index);
}

void read_shuffle_window(const Cursor& cursor, std::int64_t& window) {
  const auto bytes = cursor.size();
  if (!bytes) return;
  if (*bytes < kWindowBytesMin || *bytes > kWindowBytesMax)
    return cursor.error(
        fmt::format("is {}, and must be from 1MiB to 1TiB", yaml::format_size_yaml(*bytes)),
        "write about as much as a worker may hold in memory, such as 64MiB");
  window = static_cast<std::int64_t>(*bytes);
}

}  // namespace

void read_shuffle(Reading& reading, const Cursor& cursor, DatasetSpec& dataset) {
  if (!cursor.node().is(Node::Kind::Map)) {
    if (cursor.node().is(Node::Kind::Sequence))
      return cursor.error("is a list, not true, false or {seed: 1}", "write true, or {seed: 1}");
    if (const auto value = cursor.boolean()) dataset.shuffle = *value;
    return;
  }
  constexpr std::array<std::string_view, 3> kKeys{"seed", "mode", "window"};
  dataset.shuffle = true;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (std::find(kKeys.begin(), kKeys.end(), entry.key) == kKeys.end()) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
      continue;
    }
    if (entry.value.is_null()) continue;
    reading.remember(entry.value);
    if (entry.key == "mode") {
      read_shuffle_mode(entry.value, dataset.shuffle_mode);
    } else if (entry.key == "window") {
      read_shuffle_window(entry.value, dataset.shuffle_window);
    } else if (const auto seed = entry.value.integer(0, std::numeric_limits<std::int64_t>::max())) {
      dataset.shuffle_seed = static_cast<std::uint64_t>(*seed);
    }
  }
}

void read_filter(const Cursor& cursor, std::string& filter) {
  auto text = cursor.text();
  if (!text) return;
  if (const auto parsed = parse_row_filter(*text); parsed.has_error())
    return cursor.error(parsed.error().message, parsed.error().hint);
  filter = std::move(*text);
}

}  // namespace train::spec
