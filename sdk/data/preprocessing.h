// A dataset's preprocessors: fitted in one pass over its rows, which the ranks divide among
// themselves, and kept in every checkpoint under its metadata's `data.<dataset>.preprocessors`, as
// a JSON text (a text, so that numbers come back as they were):
//
//   [{"name": "standard_scaler", "arguments": {"columns": ["age"]},
//     "columns": {"age": {"offset": 38.5, "scale": 13.2}}}, …]
//
// Whatever the number of ranks, the same rows give the same bits.
#pragma once

#include <train/config.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/row_source.h"
#include "lib/data/transform/preprocessor_fit.h"
#include "sdk/data/dataset_spec.h"

namespace train::sdk {

/// Of the text: a checkpoint's metadata may have 1 MiB, for all datasets and the user.
inline constexpr std::size_t kFittedBytesMax = 256u << 10;
/// The parts of a dataset that are summed up apart.
inline constexpr std::int64_t kFitPartsMax = 64;

struct FittedSteps {
  std::vector<MapStep> steps = {};  // as the spec has them
  std::vector<data::FittedPreprocessor> fitted = {};
};

/// Return what the spec's step means. Throws Failure when an argument has the wrong type.
data::PreprocessorSpec preprocessor_spec(const MapStep& step);

/// Return the text; an error if it is longer than a checkpoint's metadata may keep.
Result<std::string> format_fitted(const FittedSteps& fitted);
/// Read such a text, which anybody may have written.
Result<FittedSteps> parse_fitted(const std::string& text);

/// Who fits: `rank` of `ranks`, which call this together if they are several.
struct Fitters {
  int ranks = 1;
  int rank = 0;
};
Result<FittedSteps> fit_preprocessors(const std::string& dataset, const std::vector<MapStep>& steps,
                                      const data::RowSource& source, const Fitters& fitters);

}  // namespace train::sdk
