// The preprocessors that a spec may name (datasets.*.preprocessors), and their arguments. They are
// those of Ray Data of the same names (ray.data.preprocessors), fitted on the dataset once. The
// launcher checks a spec against them before any worker starts; lib/data/transform carries them
// out.
#pragma once

#include <array>
#include <string_view>

#include "lib/model/built_in_maps.h"

namespace train {

inline constexpr int kPreprocessorsMax = 64;          // of a dataset
inline constexpr int kPreprocessedColumnsMax = 1024;  // of one of them
inline constexpr int kCategoriesMax = 10'000;         // of a column, that are encoded
inline constexpr int kBinsMax = 10'000;
inline constexpr std::array<std::string_view, 3> kImputerStrategies{"mean", "most_frequent",
                                                                    "constant"};
inline constexpr std::array<std::string_view, 3> kNorms{"l1", "l2", "max"};
inline constexpr std::array<std::string_view, 2> kPowerMethods{"yeo-johnson", "box-cox"};
inline constexpr std::array<std::string_view, 2> kFloatTypes{"float32", "float64"};

namespace preprocessor_arguments {
using Kind = MapArgumentKind;
inline constexpr double kAny = 1e30;
inline constexpr MapArgument kColumns{"columns", Kind::Columns, true, 1, kPreprocessedColumnsMax};
inline constexpr std::array kOnlyColumns{kColumns};
inline constexpr std::array kImputer{
    kColumns, MapArgument{"strategy", Kind::Choice, false, 0, 0, kImputerStrategies},
    MapArgument{"fill_value", Kind::Scalar}};
inline constexpr std::array kOneHotEncoder{
    kColumns, MapArgument{"max_categories", Kind::Integer, false, 1, kCategoriesMax}};
inline constexpr std::array kNormalizer{kColumns,
                                        MapArgument{"norm", Kind::Choice, false, 0, 0, kNorms}};
inline constexpr std::array kPower{kColumns, MapArgument{"power", Kind::Number, true, -100, 100},
                                   MapArgument{"method", Kind::Choice, false, 0, 0, kPowerMethods}};
inline constexpr std::array kUniformBins{kColumns,
                                         MapArgument{"bins", Kind::Integer, true, 1, kBinsMax}};
inline constexpr std::array kCustomBins{kColumns,
                                        MapArgument{"edges", Kind::Numbers, true, -kAny, kAny}};
inline constexpr std::array kConcatenator{
    MapArgument{"output", Kind::Column, true},
    MapArgument{"columns", Kind::Columns, false, 1, kPreprocessedColumnsMax},
    MapArgument{"exclude", Kind::Columns, false, 1, kPreprocessedColumnsMax},
    MapArgument{"type", Kind::Choice, false, 0, 0, kFloatTypes}};
}  // namespace preprocessor_arguments

inline constexpr std::array kPreprocessors{
    BuiltInMap{"simple_imputer", preprocessor_arguments::kImputer},
    BuiltInMap{"standard_scaler", preprocessor_arguments::kOnlyColumns},
    BuiltInMap{"min_max_scaler", preprocessor_arguments::kOnlyColumns},
    BuiltInMap{"max_abs_scaler", preprocessor_arguments::kOnlyColumns},
    BuiltInMap{"normalizer", preprocessor_arguments::kNormalizer},
    BuiltInMap{"power_transformer", preprocessor_arguments::kPower},
    BuiltInMap{"uniform_k_bins_discretizer", preprocessor_arguments::kUniformBins},
    BuiltInMap{"custom_k_bins_discretizer", preprocessor_arguments::kCustomBins},
    BuiltInMap{"label_encoder", preprocessor_arguments::kOnlyColumns},
    BuiltInMap{"ordinal_encoder", preprocessor_arguments::kOnlyColumns},
    BuiltInMap{"one_hot_encoder", preprocessor_arguments::kOneHotEncoder},
    BuiltInMap{"concatenator", preprocessor_arguments::kConcatenator}};

/// Return the preprocessor of that name, or null.
constexpr const BuiltInMap* preprocessor(std::string_view name) {
  for (const BuiltInMap& one : kPreprocessors)
    if (one.name == name) return &one;
  return nullptr;
}

}  // namespace train
