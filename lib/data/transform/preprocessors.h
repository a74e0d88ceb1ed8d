// Fitted preprocessors (preprocessor_fit.h) applied to the rows of a batch. What a row becomes
// depends on that row and on what was fitted, and on nothing else.
//
//   simple_imputer              null and NaN become a value of the column's type; the mean of whole
//                               numbers makes them float64
//   standard, min_max, max_abs  float32: (x - offset) / scale; what is missing becomes NaN
//   normalizer                  float32: each row's columns are divided by their norm
//   power_transformer           float32
//   …_k_bins_discretizer        int64: the number of the bin, from 0; beyond the ends, the bins
//   there ordinal, label encoder      int64: the value's place among the sorted ones; -1: never
//   seen one_hot_encoder             float32 [n]: zeros for what was never seen concatenator
//   float32 [n] or float64 [n], in place of its columns
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/transform/preprocessor_fit.h"

namespace train::data {

/// Apply the preprocessors, one after the other. An error names the preprocessor and the column
/// that is missing, or of another kind than it needs.
Result<std::shared_ptr<arrow::RecordBatch>> preprocess(
    const std::vector<FittedPreprocessor>& preprocessors, std::shared_ptr<arrow::RecordBatch> rows);

/// Return the columns that rows of `schema` have then.
Result<std::shared_ptr<arrow::Schema>> preprocessed(
    const std::vector<FittedPreprocessor>& preprocessors,
    const std::shared_ptr<arrow::Schema>& schema);

}  // namespace train::data
