#include "lib/data/transform/preprocessor_fit.h"

#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/model/preprocessors.h"

namespace train::data {
namespace {

/// What a preprocessor learns of its columns.
enum class Learns { Nothing, Numbers, Categories };

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Learns learns(const PreprocessorSpec& spec) {
  if (one_of(spec.name,
             {"standard_scaler", "min_max_scaler", "max_abs_scaler", "uniform_k_bins_discretizer"}))
    return Learns::Numbers;
  if (one_of(spec.name, {"label_encoder", "ordinal_encoder", "one_hot_encoder"}))
    return Learns::Categories;
  if (spec.name != "simple_imputer" || spec.strategy == "constant") return Learns::Nothing;
  return spec.strategy == "mean" ? Learns::Numbers : Learns::Categories;
}

/// Return whether later preprocessors can learn from what this one makes of a column.
bool tells_what_it_makes(const PreprocessorSpec& spec) {
  return one_of(spec.name, {"simple_imputer", "standard_scaler", "min_max_scaler", "max_abs_scaler",
                            "label_encoder", "ordinal_encoder"});
}

Error in_column(Error error, const PreprocessorSpec& spec, const std::string& column) {
  return std::move(error).with_context(fmt::format("{}: column '{}'", spec.name, column));
}

/// A column on its way through the preprocessors.
struct Made {
  std::string by = {};      // the preprocessor that made it; empty: it is the dataset's
  bool known = true;        // what its values are
  bool categories = false;  // its values are some of a few
  bool numbers = false;
};

Result<Unit> check_learning(const PreprocessorSpec& spec, Learns what, const Made& column) {
  const std::string from = column.by.empty() ? "" : fmt::format(", as {} makes it,", column.by);
  if (!column.known)
    return Error{Errc::InvalidArgument,
                 fmt::format("nothing can be learned of it after {}", column.by),
                 fmt::format("put {} before {}", spec.name, column.by)};
  if (what == Learns::Numbers && !column.numbers)
    return Error{Errc::InvalidArgument, fmt::format("it{} is not of numbers", from)};
  if (what == Learns::Categories && !column.categories)
    return Error{Errc::InvalidArgument,
                 fmt::format("it{} is not of whole numbers, true and false, or text", from),
                 "encode a column of categories"};
  return Unit{};
}

void pass(const PreprocessorSpec& spec, Made& column) {
  column.by = spec.name;
  column.known = column.known && tells_what_it_makes(spec);
  if (spec.name == "simple_imputer") {
    column.categories = column.categories && spec.strategy != "mean";
  } else {
    column.categories = one_of(spec.name, {"label_encoder", "ordinal_encoder"});
    column.numbers = true;
  }
}

Result<Made> column_in(const arrow::Schema& schema, const std::string& name) {
  const auto field = schema.GetFieldByName(name);
  if (field == nullptr)
    return Error{Errc::NotFound, fmt::format("there is no such column, only '{}'",
                                             fmt::join(schema.field_names(), "', '"))};
  return Made{.categories = is_of_categories(*field->type()),
              .numbers = is_of_numbers(*field->type())};
}

double deviation(const NumberSummary& numbers) {
  return std::sqrt(numbers.squares / static_cast<double>(numbers.count));
}

/// Return a divisor: 1 in place of 0, of which nothing would be left.
double divisor(double scale) { return scale > 0 && std::isfinite(scale) ? scale : 1; }

Category most_frequent(const std::map<Category, std::int64_t>& counts) {
  return std::max_element(counts.begin(), counts.end(),
                          [](const auto& a, const auto& b) {
                            return a.second < b.second;  // the first of equals
                          })
      ->first;
}

std::vector<Category> categories_of(const PreprocessorSpec& spec,
                                    const std::map<Category, std::int64_t>& counts) {
  std::vector<std::pair<Category, std::int64_t>> kept(counts.begin(), counts.end());
  if (spec.max_categories > 0 && std::cmp_greater(kept.size(), spec.max_categories)) {
    std::stable_sort(kept.begin(), kept.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    kept.resize(static_cast<std::size_t>(spec.max_categories));
  }
  std::vector<Category> categories;
  for (auto& [category, count] : kept) categories.push_back(std::move(category));
  std::sort(categories.begin(), categories.end());
  return categories;
}

FillValue fill_of(Category category) {
  return std::visit([](auto& value) -> FillValue { return std::move(value); }, category);
}

/// Let the summary be that of the column without its missing values.
void impute(const FillValue& fill, ColumnSummary& column) {
  NumberSummary filled;
  if (const auto* number = std::get_if<double>(&fill))
    filled = {column.missing, *number, 0, *number, *number};
  if (const auto* whole = std::get_if<std::int64_t>(&fill)) {
    const auto number = static_cast<double>(*whole);
    filled = {column.missing, number, 0, number, number};
    if (!column.counts.empty() && column.missing > 0) column.counts[*whole] += column.missing;
  }
  if (const auto* text = std::get_if<std::string>(&fill); text != nullptr && column.missing > 0)
    column.counts[*text] += column.missing;
  column.numbers.merge(filled);
  column.missing = 0;
}

/// Let the summary be that of the numbers of the categories.
void encode(const std::vector<Category>& categories, ColumnSummary& column) {
  ColumnSummary encoded;
  const auto add = [&](std::int64_t number, std::int64_t count) {
    if (count == 0) return;
    const auto value = static_cast<double>(number);
    encoded.counts[number] += count;
    encoded.numbers.merge({count, value, 0, value, value});
  };
  add(-1, column.missing);
  for (const auto& [category, count] : column.counts) {
    const auto at = std::lower_bound(categories.begin(), categories.end(), category);
    add(at - categories.begin(), count);
  }
  column = std::move(encoded);
}

Result<FittedColumn> fit_column(const PreprocessorSpec& spec, ColumnSummary& column) {
  FittedColumn fitted;
  const NumberSummary numbers = column.numbers;
  const Learns what = learns(spec);
  const bool none = what == Learns::Numbers ? numbers.count == 0 : column.counts.empty();
  if (what != Learns::Nothing && none)
    return Error{Errc::InvalidArgument, "it has no values: all are missing", "leave it out"};
  if (what == Learns::Numbers && !(std::isfinite(numbers.min) && std::isfinite(numbers.max)))
    return Error{Errc::InvalidArgument, "some of its values are infinite", "clean the data first"};
  if (spec.name == "simple_imputer") {
    fitted.fill = spec.strategy == "mean"            ? FillValue(numbers.mean)
                  : spec.strategy == "most_frequent" ? fill_of(most_frequent(column.counts))
                                                     : spec.fill;
    if (fitted.fill) impute(*fitted.fill, column);
  } else if (what == Learns::Categories) {
    fitted.categories = categories_of(spec, column.counts);
    if (std::cmp_greater(fitted.categories.size(), kCategoriesMax)) {
      return Error{Errc::InvalidArgument,
                   fmt::format("{} of its values differ, and {} at most can be encoded",
                               fitted.categories.size(), kCategoriesMax),
                   "encode another column, or use one_hot_encoder with max_categories"};
    }
    if (spec.name != "one_hot_encoder") encode(fitted.categories, column);
  } else if (spec.name == "uniform_k_bins_discretizer") {
    fitted.offset = numbers.min;
    fitted.scale = divisor((numbers.max - numbers.min) / static_cast<double>(spec.bins));
  } else if (what == Learns::Numbers) {
    if (spec.name == "standard_scaler") {
      fitted = {.offset = numbers.mean, .scale = divisor(deviation(numbers))};
    } else if (spec.name == "min_max_scaler") {
      fitted = {.offset = numbers.min, .scale = divisor(numbers.max - numbers.min)};
    } else {
      fitted.scale = divisor(std::max(std::abs(numbers.min), std::abs(numbers.max)));
    }
    column.numbers = numbers.scaled(fitted.offset, fitted.scale);
    column.counts.clear();
  }
  return fitted;
}

}  // namespace

Result<std::map<std::string, NeededColumn>> needed_columns(
    const std::vector<PreprocessorSpec>& specs, const arrow::Schema& schema) {
  std::map<std::string, NeededColumn> needed;
  std::map<std::string, Made> made;
  std::set<std::string> outputs;  // of concatenators
  for (const PreprocessorSpec& spec : specs) {
    for (const std::string& name : spec.columns) {
      if (outputs.contains(name)) continue;  // known once they run
      if (!made.contains(name)) {
        auto column = column_in(schema, name);
        if (column.has_error()) return in_column(std::move(column).error(), spec, name);
        made[name] = *column;
      }
      Made& column = made[name];
      if (const Learns what = learns(spec); what != Learns::Nothing) {
        if (auto checked = check_learning(spec, what, column); checked.has_error())
          return in_column(std::move(checked).error(), spec, name);
        // Numbers that an encoder has made come from its counts.
        const bool counted = what == Learns::Categories;
        needed[name].counted = needed[name].counted || counted;
      }
      pass(spec, column);
    }
    if (spec.name == "concatenator") outputs.insert(spec.output);
  }
  return needed;
}

Result<std::vector<FittedPreprocessor>> fit(const std::vector<PreprocessorSpec>& specs,
                                            std::map<std::string, ColumnSummary> columns) {
  std::vector<FittedPreprocessor> all;
  for (const PreprocessorSpec& spec : specs) {
    FittedPreprocessor fitted{.spec = spec};
    const bool learning = learns(spec) != Learns::Nothing || spec.name == "simple_imputer";
    for (const std::string& name : spec.columns) {
      if (!learning) continue;
      auto column = fit_column(spec, columns[name]);
      if (column.has_error()) return in_column(std::move(column).error(), spec, name);
      fitted.columns[name] = std::move(*column);
    }
    all.push_back(std::move(fitted));
  }
  return all;
}

}  // namespace train::data
