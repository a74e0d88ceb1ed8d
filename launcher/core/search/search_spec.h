// What a sweep searches: the content of `sweep:` in a job's YAML as plain structs, with the
// defaults beside the fields. launcher/spec fills it in; the parts of this folder read it.
#pragma once

#include <array>
#include <boost/json/value.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace train {

inline constexpr int kTrialsMax = 100'000;  // of one sweep
inline constexpr int kConcurrentTrialsMax = 1024;
inline constexpr std::size_t kParametersMax = 256;
inline constexpr std::size_t kChoicesMax = 10'000;  // of one parameter

enum class ParameterKind { Const, Choice, Uniform, LogUniform, Int };
struct Parameter {
  std::string path;  // "optimizer.lr": of train_loop_config; "spec.…": of the spec
  ParameterKind kind = ParameterKind::Const;
  boost::json::array values = {};        // of a choice; of a const its only one
  double low = 0, high = 0;              // of a range, both ends in
  std::int64_t least = 0, greatest = 0;  // of an Int, both ends in
  int count = 0;                         // how many values of a range a grid has
  bool operator==(const Parameter&) const = default;
};

/// Command: a program of the user's, the searcher, proposes the values.
enum class SearchKind { Single, Grid, Random, Command };
inline constexpr std::array<std::string_view, 4> kSearchKinds{"single", "grid", "random",
                                                              "command"};
enum class SearchMode { Min, Max };
inline constexpr std::array<std::string_view, 2> kSearchModes{"min", "max"};

/// Which brackets there are: only the deepest, those from the middle on, or all.
enum class AshaMode { Aggressive, Standard, Conservative };
inline constexpr std::array<std::string_view, 3> kAshaModes{"aggressive", "standard",
                                                            "conservative"};
struct AshaSpec {
  std::int64_t max_time = 0;
  int divisor = 4;
  int max_rungs = 5;
  AshaMode mode = AshaMode::Standard;
  bool operator==(const AshaSpec&) const = default;
};
struct MedianSpec {
  std::int64_t grace_time = 60;
  int min_samples = 3;
  bool operator==(const MedianSpec&) const = default;
};
/// Population based training.
struct PbtSpec {
  std::int64_t interval = 60;            // how often trials are compared
  std::int64_t burn_in = 0;              // not before this time
  double quantile = 0.25;                // the share of the worst, and of the best
  double resample = 0.25;                // the chance that a value is drawn anew
  std::vector<std::string> mutate = {};  // paths of the parameters that change; empty: all
  bool operator==(const PbtSpec&) const = default;
};
struct NoScheduler {
  bool operator==(const NoScheduler&) const = default;
};
using SchedulerSpec = std::variant<NoScheduler, AshaSpec, MedianSpec, PbtSpec>;

struct SearchSpec {
  std::string metric;  // of rank 0's reports
  SearchMode mode = SearchMode::Min;
  std::string time_attribute = {};  // a metric that grows; empty: the number of reports
  SearchKind search = SearchKind::Random;
  std::vector<std::string> command = {};          // the searcher and its arguments
  int num_trials = 1;                             // of a grid: of each point
  std::optional<int> max_concurrent_trials = {};  // none: as many as fit
  std::optional<int> keep_trials = {};  // so many of the best keep their checkpoints; none: all
  bool lock_step = false;               // each report waits until the scheduler has decided
  std::int64_t seed = 0;
  std::vector<boost::json::object> points = {};  // tried first: path → value
  std::vector<Parameter> parameters = {};
  SchedulerSpec scheduler = {};
  bool operator==(const SearchSpec&) const = default;
};

}  // namespace train
