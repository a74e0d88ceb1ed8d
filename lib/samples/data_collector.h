// Makes tables of what the ranks say of their datasets (lib/model/data_operator.h): for each
// operator its rows and bytes in a second, and which parts of the time it was at work, waited for
// input, and waited for room. Ranks may say anything: names and numbers are bounded. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/time.h"
#include "lib/model/data_operator.h"
#include "lib/samples/sample_table.h"

namespace train {

/// Ranks that have rows of their own in the newest table, those that wait most for data first, and
/// in the tables that are kept. All ranks are in the rows "…/all".
inline constexpr std::size_t kDataRanksNewest = 512;
inline constexpr std::size_t kDataRanksKept = 64;
/// Different operators of all ranks together; further ones are left out.
inline constexpr std::size_t kDataOperatorsKnownMax = 256;
/// The newest table covers the last 10 to 20 s, so that a batch that takes long is not all or
/// nothing.
inline constexpr Duration kDataWindow = seconds(10);

class DataCollector {
 public:
  struct Row;  // of a table

  /// Take what ranks of a node say. `taken_us`: when, by the node's clock; 0: use `now`. Older
  /// attempts are left out, and a newer one begins anew.
  void sampled(Attempt attempt, std::int64_t taken_us, std::span<const RankData> ranks,
               TimePoint now);
  void ended(Attempt attempt, Rank rank);

  /// Return the newest values, over kDataWindow; nothing if no rank has said any lately.
  std::optional<SampleTable> newest(TimePoint now, std::int64_t wall_ms) const;
  /// Return the values since the call before, of the ranks that have said any since; for the files.
  std::optional<SampleTable> kept(TimePoint now, std::int64_t wall_ms);
  /// Return what all ranks have done since their beginning, also those that have ended, over all
  /// attempts; nothing if they have read no dataset.
  std::optional<SampleTable> whole_run() const;

 private:
  struct Id {
    std::string dataset;
    OperatorKind kind = OperatorKind::Index;
    std::string map;
    auto operator<=>(const Id&) const = default;
  };
  struct Counters {
    std::int64_t rows = 0, bytes = 0, busy_us = 0, input_us = 0, room_us = 0, queue_bytes = 0;
  };
  using Operators = std::vector<std::pair<std::uint16_t, Counters>>;  // by place in ids_
  struct Moment {
    std::int64_t at_us = 0;
    Operators operators = {};
  };
  struct Known {
    std::int64_t first_us = 0;  // when its process was seen first
    Moment newest = {};
    std::optional<Moment> kept = {};  // the newest one that kept() has seen
    Moment window = {}, next_window = {};
    TimePoint sampled_at{};
  };
  struct Ended {
    Operators operators = {};
    std::int64_t us = 0;  // in which they did that
  };
  struct Change;  // of one rank between two moments
  using Changes = std::map<Rank, Change>;

  std::optional<std::uint16_t> place_of(const DataOperator& one);
  Operators counters_of(const RankData& rank);
  void close(Rank rank, const Known& known);
  static Row row_of(const Change& change, std::uint16_t place);
  SampleTable table_of(const Changes& changes, std::size_t ranks_max) const;
  std::vector<std::uint16_t> in_order() const;
  std::vector<Rank> hungriest(const Changes& changes, std::size_t ranks_max) const;
  SampleTable dated(SampleTable table, std::int64_t wall_ms, Duration span) const;

  Attempt attempt_;
  std::vector<Id> ids_;
  std::map<Id, std::uint16_t> places_;
  std::map<Rank, Known> ranks_;
  std::map<Rank, Ended> ended_;  // by rank, over all attempts so far
};

}  // namespace train
