// Preprocessors are fitted on a dataset once: their columns are summed up (column_summary.h), and
// what each of them needs comes from those sums. One pass is enough for a whole list of them: what
// one of them makes of a column changes its summary by arithmetic. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/transform/column_summary.h"

namespace train::data {

using FillValue = std::variant<double, std::int64_t, std::string>;

/// One preprocessor of a spec and its arguments (lib/model/preprocessors.h); each uses some of
/// them.
struct PreprocessorSpec {
  std::string name = {};
  std::vector<std::string> columns = {};
  std::string strategy = "mean";          // simple_imputer
  std::optional<FillValue> fill = {};     // simple_imputer, constant
  std::int64_t max_categories = 0;        // one_hot_encoder: the most frequent ones; 0: all
  std::string norm = "l2";                // normalizer
  double power = 1;                       // power_transformer
  std::string method = "yeo-johnson";     // power_transformer
  std::int64_t bins = 1;                  // uniform_k_bins_discretizer
  std::vector<double> edges = {};         // custom_k_bins_discretizer, ascending
  std::string output = {};                // concatenator
  std::vector<std::string> exclude = {};  // concatenator without columns
  std::string type = "float32";           // concatenator
  bool operator==(const PreprocessorSpec&) const = default;
};

/// What a preprocessor has learned of one of its columns.
struct FittedColumn {
  double offset = 0, scale = 1;           // scalers: (x - offset) / scale; bins: from, width
  std::optional<FillValue> fill = {};     // simple_imputer
  std::vector<Category> categories = {};  // encoders, ascending
  bool operator==(const FittedColumn&) const = default;
};

struct FittedPreprocessor {
  PreprocessorSpec spec = {};
  std::map<std::string, FittedColumn> columns = {};  // none if it needs to learn nothing
  bool operator==(const FittedPreprocessor&) const = default;
};

/// A column of the dataset that must be summed up.
struct NeededColumn {
  bool counted = false;  // as well
};

/// Return the columns of the dataset that the preprocessors learn from. An error names the
/// preprocessor and the column that is not in `schema`, is of another kind than it needs, or that
/// an earlier preprocessor has made something that it cannot learn from.
Result<std::map<std::string, NeededColumn>> needed_columns(
    const std::vector<PreprocessorSpec>& specs, const arrow::Schema& schema);

/// Fit the preprocessors on the summaries of those columns.
Result<std::vector<FittedPreprocessor>> fit(const std::vector<PreprocessorSpec>& specs,
                                            std::map<std::string, ColumnSummary> columns);

}  // namespace train::data
