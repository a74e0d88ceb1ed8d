#include "sdk/data/preprocessing.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "lib/data/transform/column_summary.h"
#include "lib/model/preprocessors.h"
#include "sdk/client/session.h"
#include "sdk/data/gather_texts.h"

namespace train::sdk {
namespace {

constexpr std::int64_t kRowsAtOnce = 16'384;
using Needed = std::map<std::string, data::NeededColumn>;
using Summaries = std::map<std::string, data::ColumnSummary>;

std::optional<data::FillValue> fill_value(const Config& arguments) {
  const auto value = arguments.get<Value>("fill_value", Value());
  if (value.is_null()) return std::nullopt;
  if (value.is_string()) return value.as<std::string>();
  if (const auto* whole = std::get_if<std::int64_t>(&value.storage())) return *whole;
  if (const auto* flag = std::get_if<bool>(&value.storage())) return std::int64_t{*flag};
  return value.as<double>();
}

Value to_value(const data::Category& category) {
  return std::visit([](const auto& value) { return Value(value); }, category);
}

data::Category category_from(const Value& value) {
  if (value.is_string()) return value.as<std::string>();
  return value.as<std::int64_t>();
}

Dict to_dict(const data::FittedColumn& column) {
  Dict dict{{"offset", column.offset}, {"scale", column.scale}};
  if (column.fill)
    dict["fill"] = std::visit([](const auto& value) { return Value(value); }, *column.fill);
  List categories;
  for (const data::Category& category : column.categories) categories.push_back(to_value(category));
  if (!categories.empty()) dict["categories"] = std::move(categories);
  return dict;
}

data::FittedColumn column_from(const Config& dict) {
  data::FittedColumn column{.offset = dict.get<double>("offset"),
                            .scale = dict.get<double>("scale")};
  const auto fill = dict.get<Value>("fill", Value());
  if (fill.is_string())
    column.fill = fill.as<std::string>();
  else if (const auto* whole = std::get_if<std::int64_t>(&fill.storage()))
    column.fill = *whole;
  else if (!fill.is_null())
    column.fill = fill.as<double>();
  for (const Value& category : dict.get<List>("categories", {}))
    column.categories.push_back(category_from(category));
  std::sort(column.categories.begin(), column.categories.end());  // they are looked up so
  return column;
}

// ---- the sums of a part, as a text

/// JSON has no infinity.
std::string exact(double number) { return fmt::format("{:a}", number); }
double exact_from(const Config& dict, const std::string& key) {
  return std::strtod(dict.get<std::string>(key).c_str(), nullptr);
}

std::string encode(std::int64_t part, const Summaries& columns) {
  Dict all;
  for (const auto& [name, column] : columns) {
    const data::NumberSummary& numbers = column.numbers;
    List counts;
    for (const auto& [category, count] : column.counts)
      counts.push_back(List{to_value(category), count});
    all[name] = Dict{{"missing", column.missing},   {"count", numbers.count},
                     {"mean", exact(numbers.mean)}, {"squares", exact(numbers.squares)},
                     {"min", exact(numbers.min)},   {"max", exact(numbers.max)},
                     {"counts", std::move(counts)}};
  }
  return to_json(List{part, std::move(all)});
}

data::ColumnSummary summary_from(const Config& dict) {
  data::ColumnSummary column{.missing = dict.get<std::int64_t>("missing"),
                             .numbers = {.count = dict.get<std::int64_t>("count"),
                                         .mean = exact_from(dict, "mean"),
                                         .squares = exact_from(dict, "squares"),
                                         .min = exact_from(dict, "min"),
                                         .max = exact_from(dict, "max")}};
  for (const Value& entry : dict.get<List>("counts")) {
    const List pair = entry.as<List>();
    column.counts[category_from(pair.at(0))] = pair.at(1).as<std::int64_t>();
  }
  return column;
}

// ---- summing up

Result<Unit> add_rows(const arrow::RecordBatch& rows, const Needed& needed, Summaries& sums) {
  for (const auto& [name, column] : needed) {
    auto added = data::add_values(*rows.GetColumnByName(name), column.counted, sums[name]);
    if (added.has_error())
      return std::move(added).error().with_context(fmt::format("column '{}'", name));
  }
  return Unit{};
}

Result<Unit> add_unit(const data::RowSource& source, std::int64_t unit, const Needed& needed,
                      Summaries& sums) {
  std::int64_t left = source.unit_rows()[static_cast<std::size_t>(unit)];
  if (left == 0) return Unit{};
  TRY(const auto stream, source.open(unit, kRowsAtOnce));
  while (left > 0) {
    TRY(const auto rows, stream->next(std::min(left, kRowsAtOnce)));
    TRY_VOID(add_rows(*rows, needed, sums));
    left -= rows->num_rows();
  }
  return Unit{};
}

/// Sum up the parts of this rank: one text each, in their order.
Result<std::vector<std::string>> sum_up(const data::RowSource& source, const Needed& needed,
                                        const Fitters& fitters) {
  const auto units = static_cast<std::int64_t>(source.unit_rows().size());
  const std::int64_t parts = std::min(units, kFitPartsMax);
  std::vector<std::string> texts;
  for (std::int64_t part = fitters.rank; part < parts; part += fitters.ranks) {
    Summaries sums;
    for (std::int64_t unit = units * part / parts; unit < units * (part + 1) / parts; ++unit)
      TRY_VOID(add_unit(source, unit, needed, sums));
    texts.push_back(encode(part, sums));
  }
  return texts;
}

/// Merge the sums of all parts, in the order of the parts.
Result<Summaries> merge(const std::vector<std::string>& of_ranks) {
  std::map<std::int64_t, Dict> parts;
  for (const std::string& text : of_ranks) {
    for (const Value& part : parse_json(text).as<List>()) {
      const List pair = parse_json(part.as<std::string>()).as<List>();
      parts[pair.at(0).as<std::int64_t>()] = pair.at(1).as<Dict>();
    }
  }
  Summaries all;
  for (const auto& [part, columns] : parts) {
    for (const auto& [name, column] : columns)
      TRY_VOID(all[name].merge(summary_from(Config(column.as<Dict>()))));
  }
  return all;
}

}  // namespace

data::PreprocessorSpec preprocessor_spec(const MapStep& step) {
  const Config arguments(step.arguments);
  const data::PreprocessorSpec defaults;
  data::PreprocessorSpec spec{
      .name = step.name,
      .columns = arguments.get<std::vector<std::string>>("columns", {}),
      .strategy = arguments.get<std::string>("strategy", defaults.strategy),
      .fill = fill_value(arguments),
      .max_categories = arguments.get<std::int64_t>("max_categories", 0),
      .norm = arguments.get<std::string>("norm", defaults.norm),
      .power = arguments.get<double>("power", defaults.power),
      .method = arguments.get<std::string>("method", defaults.method),
      .bins = std::max<std::int64_t>(1, arguments.get<std::int64_t>("bins", defaults.bins)),
      .edges = arguments.get<std::vector<double>>("edges", {}),
      .output = arguments.get<std::string>("output", ""),
      .exclude = arguments.get<std::vector<std::string>>("exclude", {}),
      .type = arguments.get<std::string>("type", defaults.type)};
  std::sort(spec.edges.begin(), spec.edges.end());
  if (preprocessor(spec.name) == nullptr)
    throw Failure("not_found", fmt::format("there is no preprocessor '{}'", spec.name));
  return spec;
}

Result<std::string> format_fitted(const FittedSteps& fitted) {
  List all;
  for (std::size_t i = 0; i < fitted.steps.size(); ++i) {
    Dict columns;
    for (const auto& [name, column] : fitted.fitted[i].columns) columns[name] = to_dict(column);
    all.push_back(Dict{{"name", fitted.steps[i].name},
                       {"arguments", fitted.steps[i].arguments},
                       {"columns", std::move(columns)}});
  }
  std::string text = to_json(all);
  if (text.size() <= kFittedBytesMax) return text;
  return Error{Errc::InvalidArgument,
               fmt::format("its preprocessors have learned {} bytes, and a checkpoint keeps {}",
                           text.size(), kFittedBytesMax),
               "encode fewer categories: one_hot_encoder takes max_categories"};
}

Result<FittedSteps> parse_fitted(const std::string& text) {
  try {
    FittedSteps all;
    for (const Value& entry : parse_json(text).as<List>()) {
      const Config step(entry.as<Dict>());
      all.steps.push_back({step.get<std::string>("name"), step.get<Dict>("arguments")});
      data::FittedPreprocessor fitted{.spec = preprocessor_spec(all.steps.back())};
      for (const auto& [name, column] : step.get<Dict>("columns"))
        fitted.columns[name] = column_from(Config(column.as<Dict>()));
      all.fitted.push_back(std::move(fitted));
    }
    return all;
  } catch (const Failure& failure) {
    return Error{Errc::Corrupt,
                 fmt::format("the checkpoint's preprocessors cannot be read: {}", failure.what())};
  }
}

Result<FittedSteps> fit_preprocessors(const std::string& dataset, const std::vector<MapStep>& steps,
                                      const data::RowSource& source, const Fitters& fitters) {
  std::vector<data::PreprocessorSpec> specs;
  for (const MapStep& step : steps) specs.push_back(preprocessor_spec(step));
  TRY(const Needed needed, data::needed_columns(specs, *source.schema()));
  Summaries sums;
  if (!needed.empty()) {
    TRY(const std::vector<std::string> mine, sum_up(source, needed, fitters));
    const std::string text = to_json(List(mine.begin(), mine.end()));
    const auto of_ranks =
        fitters.ranks == 1
            ? std::vector<std::string>{text}
            : gather_texts(fmt::format("preprocessors of '{}'", dataset), text, fitters.ranks);
    TRY(sums, merge(of_ranks));
  }
  TRY(auto fitted, data::fit(specs, std::move(sums)));
  return FittedSteps{steps, std::move(fitted)};
}

}  // namespace train::sdk
