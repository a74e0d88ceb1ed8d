// train-run data bench: how fast datasets are read and mapped on this machine, by operator.
#pragma once

#include <train/config.h>

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct BenchOptions {
  double seconds = 10;
  int workers = 1;  // threads of this process, each of which reads its share
  std::int64_t batch_size = 256;
};

struct BenchedOperator {
  std::string name = {};  // decode, gather, "map NAME"
  std::int64_t rows = 0, bytes = 0;
  double busy = 0;  // seconds, of all workers together
};

struct Benched {
  std::string name = {};
  int workers = 0;
  std::int64_t rows = 0, bytes = 0, passes = 0;
  double seconds = 0;
  std::vector<BenchedOperator> operators = {};
  std::string without = {};  // the first preprocessor or map that took no part; empty: all did
  bool fits = false;         // it is a preprocessor
};

/// Read a dataset as a loop would, without the maps that only the user's program has, and without
/// preprocessors and what follows them.
Result<Benched> bench_dataset(const std::string& name, const Value& entry,
                              const BenchOptions& options);

std::string bench_text(const Benched& benched);
Value bench_json(const Benched& benched);

}  // namespace train
