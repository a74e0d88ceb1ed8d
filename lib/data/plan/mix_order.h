// The order in which an epoch of a mix visits the rows of several datasets: which of them has each
// position, and how many of its rows came before. Both are arithmetic, so a position in a mix is
// one number, as in any other order (row_order.h). Pure.
//
// The weights become whole numbers of sum W, and a cycle of W positions is a table: at each, the
// dataset whose share lags most behind its weight. A dataset whose rows are used up ends the epoch
// (Shortest), or is left out from there on (LongestDrop: the others share its positions), or begins
// its next pass (Rows: an epoch has as many rows as are asked for).
#pragma once

#include <cstdint>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

enum class MixEnd { Shortest, LongestDrop, Rows };

inline constexpr std::size_t kMixSourcesMax = 64;
inline constexpr std::int64_t kMixCycleMax = 1000;

struct MixSpec {
  std::vector<double> weights = {};     // above 0
  std::vector<std::int64_t> rows = {};  // of each dataset, at least 1
  MixEnd end = MixEnd::Shortest;
  std::int64_t epoch_rows = 0;  // Rows
};

/// Return whole numbers in the proportion of the weights, as nearly as a sum of kMixCycleMax
/// allows; each at least 1.
std::vector<std::int64_t> whole_weights(const std::vector<double>& weights);

class MixOrder {
 public:
  /// InvalidArgument for weights that are not above 0, or more than kMixSourcesMax datasets.
  static Result<MixOrder> make(const MixSpec& spec);

  int sources() const { return static_cast<int>(rows_.size()); }
  std::int64_t rows_of(int source) const { return rows_[static_cast<std::size_t>(source)]; }
  std::int64_t total_rows() const { return total_; }
  /// Return the dataset that has this position of the epoch, in [0, total_rows()).
  int source_at(std::int64_t position) const;
  /// Return how many rows of the dataset come before this position, in [0, total_rows()], in all of
  /// its passes.
  std::int64_t before(int source, std::int64_t position) const;

 private:
  struct Segment {
    std::int64_t begin = 0;
    std::vector<int> table = {};                         // the dataset at each place of a cycle
    std::vector<std::vector<std::int64_t>> before = {};  // places of each dataset before each place
    std::vector<std::int64_t> base = {};                 // rows of each before `begin`
  };
  explicit MixOrder(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {}
  static Segment segment(std::int64_t begin, const std::vector<std::int64_t>& weights,
                         std::vector<std::int64_t> base);
  std::int64_t used_up_at(const Segment& segment, int source) const;
  const Segment& segment_of(std::int64_t position) const;
  static std::int64_t before(const Segment& segment, int source, std::int64_t position);

  std::vector<std::int64_t> rows_;
  std::vector<Segment> segments_;
  std::int64_t total_ = 0;
};

}  // namespace train::data
