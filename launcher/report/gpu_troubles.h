// Decides what to say of GPUs that are in trouble: once of each GPU and trouble. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/model/node_sample.h"

namespace train {

/// What a run says of troubles at most.
inline constexpr std::size_t kGpuTroublesMax = 64;

class GpuTroubles {
 public:
  /// Take a sample of a GPU that the run uses on `node`; `ranks` use it ("3", "0-3"). Return lines
  /// for people: errors that the driver reported since the first sample (Xids), a GPU that is lost
  /// or does not answer, and processes that use it and belong to no run.
  std::vector<std::string> sampled(const std::string& node, const std::string& ranks,
                                   const GpuSample& gpu);

 private:
  std::map<std::string, std::int64_t> xids_;  // that a GPU has reported so far
  std::set<std::string> said_;
};

}  // namespace train
