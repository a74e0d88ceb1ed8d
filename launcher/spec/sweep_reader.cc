#include "launcher/spec/sweep_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "launcher/core/search/trial_values.h"
#include "launcher/spec/kind_readers.h"
#include "launcher/spec/section_reader.h"
#include "lib/yaml/nearest.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

constexpr std::int64_t kTimeMax = std::int64_t{1} << 53;  // doubles hold such numbers exactly
constexpr std::array<std::string_view, 12> kKeys{
    "metric", "mode",   "time_attribute", "search",    "num_trials",  "max_concurrent_trials",
    "seed",   "points", "parameters",     "scheduler", "keep_trials", "lock_step"};
constexpr std::array<std::string_view, 5> kRangeWords{"const", "choice", "uniform", "log_uniform",
                                                      "int"};
constexpr std::array<std::string_view, 5> kTypeWords{"const", "categorical", "double", "int",
                                                     "log"};  // Determined's
constexpr std::string_view kSpecPrefix = "spec.";

std::optional<std::string> read_metric_name(const Cursor& cursor) {
  auto text = cursor.text();
  if (text && text->empty()) {
    cursor.error("is empty", "name a metric, or remove the key");
    return std::nullopt;
  }
  return text;
}

// ---- one parameter

/// Read [a, b]. `read`: how to read one of the two.
template <class Read>
auto read_bounds(const Cursor& cursor, std::string_view example, Read read)
    -> std::optional<std::array<typename decltype(read(cursor))::value_type, 2>> {
  if (!cursor.node().is(Node::Kind::Sequence) || cursor.node().items.size() != 2) {
    cursor.error("is not a list of two numbers", fmt::format("write {}", example));
    return std::nullopt;
  }
  const std::vector<Cursor> items = cursor.items();
  const auto low = read(items[0]), high = read(items[1]);
  if (!low || !high) return std::nullopt;
  if (*low > *high) {
    items[1].error(fmt::format("is {}, less than the first, which is {}", *high, *low),
                   "write the lower one first");
    return std::nullopt;
  }
  return std::array{*low, *high};
}

/// Remember where a parameter comes from, as the printed spec spells it.
void remember_as(Reading& reading, const Cursor& cursor, std::string_view word) {
  reading.origins[yaml::join_path(cursor.path(), word)] = {cursor.at(), {}};
}

bool set_range(Parameter& parameter, ParameterKind kind,
               const std::optional<std::array<double, 2>>& bounds) {
  parameter.kind = kind;
  if (bounds) parameter.low = (*bounds)[0], parameter.high = (*bounds)[1];
  return bounds.has_value();
}

bool set_integers(Parameter& parameter, const std::optional<std::array<std::int64_t, 2>>& bounds) {
  parameter.kind = ParameterKind::Int;
  if (bounds) parameter.least = (*bounds)[0], parameter.greatest = (*bounds)[1];
  return bounds.has_value();
}

bool set_choice(Reading& reading, const Cursor& cursor, Parameter& parameter) {
  parameter.kind = ParameterKind::Choice;
  for (const Cursor& item : cursor.items()) parameter.values.push_back(read_value(reading, item));
  if (!cursor.node().is(Node::Kind::Sequence)) return false;
  if (parameter.values.empty()) cursor.error("is empty", "write the values to choose from");
  if (parameter.values.size() > kChoicesMax)
    cursor.error(
        fmt::format("has {} values, and may have {}", parameter.values.size(), kChoicesMax),
        "write a range");
  return !parameter.values.empty() && parameter.values.size() <= kChoicesMax;
}

bool read_grid_count(const Cursor& cursor, Parameter& parameter) {
  const auto count = cursor.integer(1, kTrialsMax);
  if (count) parameter.count = static_cast<int>(*count);
  return count.has_value();
}

std::optional<std::int64_t> any_integer(const Cursor& cursor) {
  return cursor.integer(std::numeric_limits<std::int64_t>::min(),
                        std::numeric_limits<std::int64_t>::max());
}

/// Check that a logarithm of both ends exists.
bool is_positive(const Cursor& cursor, const Parameter& parameter) {
  if (parameter.low > 0 && std::isfinite(parameter.high)) return true;
  cursor.error("is to be a range of logarithms, and does not lie above 0",
               "raise the lower end, or write uniform");
  return false;
}

/// Read {log_uniform: [a, b], count: 4} and the like.
bool read_range(Reading& reading, const Cursor& cursor, Parameter& parameter) {
  std::vector<std::string_view> known(kRangeWords.begin(), kRangeWords.end());
  known.emplace_back("count");
  bool good = true, has_range = false;
  for (const Cursor::Entry& entry : cursor.entries()) {
    const auto number = [](const Cursor& one) { return one.number(); };
    reading.remember(entry.value);
    if (entry.key == "count") {
      good = read_grid_count(entry.value, parameter) && good;
      continue;
    }
    if (std::find(kRangeWords.begin(), kRangeWords.end(), entry.key) == kRangeWords.end()) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, known);
      good = false;
      continue;
    }
    if (std::exchange(has_range, true)) {
      entry.value.error("is a second range of the same parameter", "remove one of them");
      good = false;
    } else if (entry.key == "const") {
      parameter.values = {read_value(reading, entry.value)};
    } else if (entry.key == "choice") {
      good = set_choice(reading, entry.value, parameter) && good;
    } else if (entry.key == "int") {
      good = set_integers(parameter, read_bounds(entry.value, "[1, 8]", any_integer)) && good;
    } else if (entry.key == "uniform") {
      good = set_range(parameter, ParameterKind::Uniform,
                       read_bounds(entry.value, "[0.1, 0.9]", number)) &&
             good;
    } else {
      good = set_range(parameter, ParameterKind::LogUniform,
                       read_bounds(entry.value, "[1.0e-5, 1.0e-1]", number)) &&
             is_positive(entry.value, parameter) && good;
    }
  }
  return good;
}

/// Read Determined's {type: log, base: 10, minval: -5, maxval: -1} and the like.
bool read_typed(Reading& reading, const Cursor& cursor, Parameter& parameter) {
  const std::vector<Cursor::Entry> entries = cursor.entries();
  const auto find = [&](std::string_view key) {
    const auto at = std::find_if(entries.begin(), entries.end(),
                                 [&](const Cursor::Entry& entry) { return entry.key == key; });
    return at == entries.end() ? nullptr : &at->value;
  };
  const std::string type = find("type")->node().text;
  std::vector<std::string_view> known{"type"};
  if (type == "const")
    known.emplace_back("val");
  else if (type == "categorical")
    known.emplace_back("vals");
  else
    known.insert(known.end(), {"minval", "maxval", "count"});
  if (type == "log") known.emplace_back("base");
  bool good = true;
  for (const Cursor::Entry& entry : entries) {
    if (std::find(known.begin(), known.end(), entry.key) != known.end()) continue;
    report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, known);
    good = false;
  }
  for (const std::string_view key : known) {
    if (find(key) != nullptr || key == "count" || key == "base") continue;
    cursor.error(fmt::format("has no {}, which type: {} needs", key, type), "add it");
    good = false;
  }
  if (!good) return false;
  if (const Cursor* count = find("count"); count != nullptr)
    if (!read_grid_count(*count, parameter)) return false;
  constexpr std::array<std::string_view, 5> kOurs{"const", "choice", "uniform", "int",
                                                  "log_uniform"};
  const auto which = std::find(kTypeWords.begin(), kTypeWords.end(), type) - kTypeWords.begin();
  remember_as(reading, cursor, kOurs[static_cast<std::size_t>(which)]);
  remember_as(reading, cursor, "count");
  if (type == "const") {
    parameter.values = {read_value(reading, *find("val"))};
    return true;
  }
  if (type == "categorical") return set_choice(reading, *find("vals"), parameter);
  const Cursor &min = *find("minval"), &max = *find("maxval");
  const auto ordered = [&](auto low, auto high) {
    if (!low || !high) return false;
    if (*low <= *high) return true;
    max.error(fmt::format("is {}, less than minval, which is {}", *high, *low), "raise it");
    return false;
  };
  if (type == "int") {
    const auto low = any_integer(min), high = any_integer(max);
    return ordered(low, high) && set_integers(parameter, std::array{*low, *high});
  }
  const auto low = min.number(), high = max.number();
  if (!ordered(low, high)) return false;
  if (type == "double")
    return set_range(parameter, ParameterKind::Uniform, std::array{*low, *high});
  double base = 10;
  if (const Cursor* given = find("base"); given != nullptr) {
    const auto read = given->number(1);
    if (!read) return false;
    base = *read;
  }
  return set_range(parameter, ParameterKind::LogUniform,
                   std::array{std::pow(base, *low), std::pow(base, *high)}) &&
         is_positive(cursor, parameter);
}

enum class Shape { Plain, Range, Typed, Nested };
Shape shape_of(const Node& node) {
  if (!node.is(Node::Kind::Map)) return Shape::Plain;
  const Node* type = node.find("type");
  if (type != nullptr && type->is(Node::Kind::Scalar) &&
      std::find(kTypeWords.begin(), kTypeWords.end(), type->text) != kTypeWords.end())
    return Shape::Typed;
  const bool range = std::any_of(kRangeWords.begin(), kRangeWords.end(),
                                 [&](std::string_view word) { return node.find(word) != nullptr; });
  return range ? Shape::Range : Shape::Nested;
}

// ---- all parameters

/// Return why a parameter cannot have this path, or "".
std::string path_mistake(std::string_view path) {
  for (std::string_view rest = path;;) {
    const std::string_view key = rest.substr(0, rest.find('.'));
    if (key.empty()) return "has an empty part";
    if (key.find('=') != std::string_view::npos) return "has a '='";
    if (key.size() == rest.size()) break;
    rest.remove_prefix(key.size() + 1);
  }
  if (!path.starts_with(kSpecPrefix)) return path == "spec" ? "names no key of the spec" : "";
  path.remove_prefix(kSpecPrefix.size());
  const std::string_view first = path.substr(0, path.find('.'));
  constexpr std::array<std::string_view, 4> kFixed{"name", "sweep", "extends", "version"};
  if (std::find(kFixed.begin(), kFixed.end(), first) != kFixed.end() || path == "run_config.name" ||
      path == "run_config.storage_path" || path == "run_config")
    return "is the same for all trials, or the sweep's own";
  return "";
}

bool overlaps(std::string_view a, std::string_view b) {
  if (a.size() > b.size()) std::swap(a, b);
  return b.starts_with(a) && (a.size() == b.size() || b[a.size()] == '.');
}

/// Report a key that is meant to be a range's, and would be a nested parameter.
bool mistyped_range(const Cursor::Entry& entry) {
  const std::string_view near = yaml::nearest(entry.key, kRangeWords);
  if (near.empty() || !entry.value.node().is(Node::Kind::Sequence)) return false;
  entry.value.diagnostics().error(
      entry.key_at, fmt::format("{} is no range", in_quotes(entry.key)),
      fmt::format("did you mean {}? For a parameter of that name write {{const: [...]}}", near));
  return true;
}

void read_parameters(Reading& reading, const Cursor& cursor, const std::string& above,
                     std::vector<Parameter>& parameters) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    const Shape shape = shape_of(entry.value.node());
    const std::string path = yaml::join_path(above, entry.key);
    if (shape == Shape::Nested && !entry.value.node().entries.empty()) {
      read_parameters(reading, entry.value, path, parameters);
      continue;
    }
    if (!above.empty() && mistyped_range(entry)) continue;
    if (reading.diagnostics.has_enough()) return;
    if (const std::string mistake = path_mistake(path); !mistake.empty()) {
      reading.diagnostics.error(entry.key_at,
                                fmt::format("the parameter {} {}", in_quotes(path), mistake),
                                "name a key of train_loop_config, or spec. and a key of the spec");
      continue;
    }
    const auto other = std::find_if(parameters.begin(), parameters.end(),
                                    [&](const Parameter& one) { return overlaps(one.path, path); });
    if (other != parameters.end()) {
      reading.diagnostics.error(
          entry.key_at,
          other->path == path
              ? fmt::format("the parameter {} is given twice", in_quotes(path))
              : fmt::format("the parameter {} is a part of the parameter {}, or the "
                            "other way around",
                            in_quotes(path), in_quotes(other->path)),
          "remove one of the two");
      continue;
    }
    Parameter parameter{.path = path};
    bool good = true;
    if (shape == Shape::Range)
      good = read_range(reading, entry.value, parameter);
    else if (shape == Shape::Typed)
      good = read_typed(reading, entry.value, parameter);
    else
      parameter.values = {read_value(reading, entry.value)};
    if (shape == Shape::Plain || shape == Shape::Nested) remember_as(reading, entry.value, "const");
    if (good) parameters.push_back(std::move(parameter));
  }
}

// ---- points

void read_point(Reading& reading, const Cursor& cursor, const std::string& above,
                const std::vector<Parameter>& parameters, boost::json::object& point) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    const std::string path = yaml::join_path(above, entry.key);
    const auto of = std::find_if(parameters.begin(), parameters.end(),
                                 [&](const Parameter& one) { return one.path == path; });
    if (of != parameters.end()) {
      boost::json::value value = read_value(reading, entry.value);
      if (!may_have(*of, value))
        entry.value.error("is not one of the parameter's values", "widen the parameter's range");
      point[path] = std::move(value);
      continue;
    }
    const bool above_some = std::any_of(parameters.begin(), parameters.end(), [&](const auto& one) {
      return one.path.starts_with(path + ".");
    });
    if (above_some && entry.value.node().is(Node::Kind::Map)) {
      read_point(reading, entry.value, path, parameters, point);
      continue;
    }
    // Each key is compared with every parameter.
    if (reading.diagnostics.has_enough() || parameters.empty()) return;
    std::vector<std::string_view> known;
    for (const Parameter& parameter : parameters) known.push_back(parameter.path);
    reading.diagnostics.error(entry.key_at,
                              fmt::format("{} is not a parameter of the sweep", in_quotes(path)),
                              yaml::suggest(path, known));
  }
}

// ---- scheduler

void read_asha(Reading& reading, const Cursor& cursor, AshaSpec& asha) {
  constexpr std::array<std::string_view, 4> kAshaKeys{"max_time", "divisor", "max_rungs", "mode"};
  for (const Cursor::Entry& entry : cursor.entries()) {
    reading.remember(entry.value);
    if (entry.key == "max_time") {
      asha.max_time = entry.value.integer(1, kTimeMax).value_or(1);
    } else if (entry.key == "divisor") {
      asha.divisor = static_cast<int>(entry.value.integer(2, 1000).value_or(2));
    } else if (entry.key == "max_rungs") {
      asha.max_rungs = static_cast<int>(entry.value.integer(1, 20).value_or(1));
    } else if (entry.key == "mode") {
      asha.mode = static_cast<AshaMode>(entry.value.choice(kAshaModes).value_or(0));
    } else {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kAshaKeys);
    }
  }
  if (asha.max_time == 0)
    cursor.error("has no max_time", "add the time_attribute at which a trial has had enough");
}

void read_median(Reading& reading, const Cursor& cursor, MedianSpec& median) {
  constexpr std::array<std::string_view, 2> kMedianKeys{"grace_time", "min_samples"};
  for (const Cursor::Entry& entry : cursor.entries()) {
    reading.remember(entry.value);
    if (entry.key == "grace_time") {
      median.grace_time = entry.value.integer(0, kTimeMax).value_or(0);
    } else if (entry.key == "min_samples") {
      median.min_samples = static_cast<int>(entry.value.integer(1, kTrialsMax).value_or(1));
    } else {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kMedianKeys);
    }
  }
}

/// Read the paths of the parameters that change. They are checked once the parameters are known.
std::vector<std::string> read_mutate(const Cursor& cursor) {
  std::vector<std::string> paths;
  for (const Cursor& item : cursor.items()) {
    if (paths.size() == kParametersMax) {
      item.error("is one parameter too many", "name each once");
      break;
    }
    if (auto path = item.text()) paths.push_back(std::move(*path));
  }
  return paths;
}

void read_pbt(Reading& reading, const Cursor& cursor, PbtSpec& pbt) {
  constexpr std::array<std::string_view, 6> kPbtKeys{"interval", "burn_in", "quantile",
                                                     "resample", "mutate",  "synchronous"};
  const auto share = [](const Cursor& value, double max) {
    const auto number = value.number();
    if (!number || (*number >= 0 && *number <= max)) return number.value_or(0);
    value.error(fmt::format("is {}, not from 0 to {}", *number, max),
                "write a share, such as 0.25");
    return 0.0;
  };
  for (const Cursor::Entry& entry : cursor.entries()) {
    reading.remember(entry.value);
    if (entry.key == "interval") {
      pbt.interval = entry.value.integer(1, kTimeMax).value_or(1);
    } else if (entry.key == "burn_in") {
      pbt.burn_in = entry.value.integer(0, kTimeMax).value_or(0);
    } else if (entry.key == "quantile") {
      pbt.quantile = share(entry.value, 0.5);
    } else if (entry.key == "resample") {
      pbt.resample = share(entry.value, 1);
    } else if (entry.key == "mutate") {
      pbt.mutate = read_mutate(entry.value);
    } else if (entry.key == "synchronous") {
      if (entry.value.boolean().value_or(false))
        entry.value.error("is true, but trials do not wait for each other",
                          "remove it: each trial is compared when it has come to its checkpoint");
    } else {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kPbtKeys);
    }
  }
}

/// Check that the parameters that change exist, and can.
void check_mutate(Reading& reading, const Cursor& cursor, const SearchSpec& sweep) {
  const auto* pbt = std::get_if<PbtSpec>(&sweep.scheduler);
  if (pbt == nullptr || reading.diagnostics.has_errors()) return;
  std::vector<std::string_view> known;
  for (const Parameter& parameter : sweep.parameters)
    if (parameter.kind != ParameterKind::Const) known.push_back(parameter.path);
  for (const std::string& path : pbt->mutate)
    if (std::find(known.begin(), known.end(), path) == known.end())
      cursor.error(fmt::format("changes {}, which is no parameter that differs from trial to trial",
                               in_quotes(path)),
                   yaml::suggest(path, known));
}

void read_scheduler(Reading& reading, const Cursor& cursor, SchedulerSpec& scheduler) {
  constexpr std::array<std::string_view, 4> kSchedulers{"none", "asha", "median_stopping", "pbt"};
  if (!cursor.node().is(Node::Kind::Map)) {
    const auto word = cursor.choice(kSchedulers);
    if (!word) return;
    if (kSchedulers[*word] == "median_stopping") scheduler = MedianSpec{};
    if (kSchedulers[*word] == "pbt") scheduler = PbtSpec{};
    if (kSchedulers[*word] == "asha")
      cursor.error("has no max_time", "write {asha: {max_time: 64}}");
    return;
  }
  constexpr std::array<std::string_view, 3> kNamed{"asha", "median_stopping", "pbt"};
  bool given = false;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (std::find(kNamed.begin(), kNamed.end(), entry.key) == kNamed.end()) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kNamed);
    } else if (std::exchange(given, true)) {
      entry.value.error("is a second scheduler", "remove one of the two");
    } else if (entry.key == "asha") {
      read_asha(reading, entry.value, scheduler.emplace<AshaSpec>());
    } else if (entry.key == "pbt") {
      PbtSpec& pbt = scheduler.emplace<PbtSpec>();
      if (!entry.value.is_null()) read_pbt(reading, entry.value, pbt);
    } else {
      MedianSpec& median = scheduler.emplace<MedianSpec>();
      if (!entry.value.is_null()) read_median(reading, entry.value, median);
    }
  }
}

// ---- the section

/// Read how values are found: a word, or {command: [...]}.
void read_search(Reading& reading, const Cursor& cursor, SearchSpec& sweep) {
  if (!cursor.node().is(Node::Kind::Map)) {
    constexpr std::span kWords = std::span(kSearchKinds).first(3);  // a command is none
    sweep.search = static_cast<SearchKind>(cursor.choice(kWords).value_or(0));
    return;
  }
  sweep.search = SearchKind::Command;
  constexpr std::array<std::string_view, 1> kSearchKeys{"command"};
  for (const Cursor::Entry& entry : cursor.entries()) {
    reading.remember(entry.value);
    if (entry.key == "command")
      for (const Cursor& word : entry.value.items())
        sweep.command.push_back(word.text().value_or(""));
    else
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kSearchKeys);
  }
  if (sweep.command.empty() || sweep.command.front().empty())
    cursor.error("names no program", "write {command: [python3, search.py]}");
}

void read_key(Reading& reading, const Cursor::Entry& entry, SearchSpec& sweep) {
  const Cursor& value = entry.value;
  reading.remember(value);
  if (entry.key == "metric") {
    sweep.metric = read_metric_name(value).value_or("?");
  } else if (entry.key == "mode") {
    sweep.mode = static_cast<SearchMode>(value.choice(kSearchModes).value_or(0));
  } else if (entry.key == "time_attribute") {
    sweep.time_attribute = read_metric_name(value).value_or("");
  } else if (entry.key == "search") {
    read_search(reading, value, sweep);
  } else if (entry.key == "num_trials") {
    sweep.num_trials = static_cast<int>(value.integer(1, kTrialsMax).value_or(1));
  } else if (entry.key == "max_concurrent_trials") {
    sweep.max_concurrent_trials =
        static_cast<int>(value.integer(1, kConcurrentTrialsMax).value_or(1));
  } else if (entry.key == "keep_trials") {
    if (value.node().text != "all")
      sweep.keep_trials = static_cast<int>(value.integer(1, kTrialsMax).value_or(1));
  } else if (entry.key == "lock_step") {
    sweep.lock_step = value.boolean().value_or(false);
  } else if (entry.key == "seed") {
    sweep.seed = value.integer(0, std::numeric_limits<std::int64_t>::max()).value_or(0);
  } else if (entry.key == "parameters") {
    read_parameters(reading, value, "", sweep.parameters);
    if (sweep.parameters.size() > kParametersMax)
      value.error(fmt::format("has {} parameters, and may have {}", sweep.parameters.size(),
                              kParametersMax),
                  "put what is the same for all trials into train_loop_config");
  } else if (entry.key == "scheduler") {
    read_scheduler(reading, value, sweep.scheduler);
  }
}

/// Check what a grid needs of its parameters.
void check_grid(const Cursor& cursor, const SearchSpec& sweep) {
  bool counted = true;
  for (const Parameter& parameter : sweep.parameters) {
    const bool range =
        parameter.kind != ParameterKind::Const && parameter.kind != ParameterKind::Choice;
    if (!range || parameter.count > 0) continue;
    counted = false;
    cursor.error(
        fmt::format("is a grid, and its parameter {} has no count", in_quotes(parameter.path)),
        "add count: 4 to it, or write search: random");
  }
  if (counted && trial_count(sweep) > kTrialsMax)
    cursor.error(fmt::format("is a grid of more than {} trials", kTrialsMax),
                 "take fewer values, or write search: random");
}

}  // namespace

void read_sweep(Reading& reading, const Cursor& cursor) {
  SearchSpec sweep;
  const std::vector<Cursor::Entry> entries = cursor.entries();
  if (!cursor.node().is(Node::Kind::Map)) return;
  const auto given = [&](std::string_view key) -> const Cursor::Entry* {
    const auto at = std::find_if(entries.begin(), entries.end(), [&](const Cursor::Entry& entry) {
      return entry.key == key && !entry.value.is_null();
    });
    return at == entries.end() ? nullptr : &*at;
  };
  for (const Cursor::Entry& entry : entries) {
    if (std::find(kKeys.begin(), kKeys.end(), entry.key) == kKeys.end())
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
    else if (!entry.value.is_null())
      read_key(reading, entry, sweep);
  }
  if (const auto* points = given("points"); points != nullptr) {
    const std::vector<Cursor> items = points->value.items();
    if (items.size() > kChoicesMax)
      points->value.error(fmt::format("has {} points, and may have {}", items.size(), kChoicesMax),
                          "leave some out");
    for (const Cursor& item : items) {
      if (reading.diagnostics.has_enough() || items.size() > kChoicesMax) break;
      read_point(reading, item, "", sweep.parameters, sweep.points.emplace_back());
    }
  }
  if (given("metric") == nullptr)
    cursor.error("has no metric", "name the metric of rank 0 by which trials are compared");
  if (given("parameters") == nullptr)
    cursor.error("has no parameters",
                 "write what to search, such as {lr: {log_uniform: [1.0e-5, 0.1]}}");
  if (sweep.search == SearchKind::Random && given("num_trials") == nullptr)
    cursor.error("has no num_trials, which a random search needs", "add num_trials: 20");
  if (sweep.search == SearchKind::Command && given("num_trials") == nullptr)
    cursor.error("has no num_trials, which bounds the trials that a searcher proposes",
                 "add num_trials: 20");
  if (sweep.search == SearchKind::Command && std::holds_alternative<PbtSpec>(sweep.scheduler))
    cursor.error("has a searcher and pbt, which both choose values", "remove one of the two");
  if (const auto* scheduler = given("scheduler"); scheduler != nullptr)
    check_mutate(reading, scheduler->value, sweep);
  if (sweep.search == SearchKind::Grid && !reading.diagnostics.has_errors())
    check_grid(cursor, sweep);
  reading.sweep = std::move(sweep);
}

}  // namespace train::spec
