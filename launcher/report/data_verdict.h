// Judges from what the operators of datasets do whether training waits for data, and which operator
// holds it up. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/time.h"
#include "lib/samples/sample_table.h"

namespace train {

class JsonWriter;

/// A rank that waits less for data is not bound by it.
inline constexpr double kDataBoundMin = 0.1;

struct DataVerdict {
  double share = 0;            // of the time of the loop that waits most
  std::int32_t rank = 0;       // its rank
  std::string dataset = {};    // that it waits for
  std::string operation = {};  // the bottleneck; empty: none stands out
  double rows_per_s = 0;       // that come through on that rank
  bool operator==(const DataVerdict&) const = default;
};

/// Return what holds up the rank that waits most for data; nothing if no rank waits for it for
/// kDataBoundMin of the time, or none has run for 2 s yet. The bottleneck is the operator that has
/// its input and somebody who takes its output: of those that prepare batches, the one that is at
/// work most. `data`: of SampleKind::Data.
std::optional<DataVerdict> data_verdict(const SampleTable& data);

/// Return by rank which operator of the dataset prepares its batches most slowly; without ranks of
/// which none stands out.
std::map<std::int32_t, std::string> data_bottlenecks(const SampleTable& data,
                                                     std::string_view dataset);

/// Put the member "data_bound": the verdict, or null.
void put_data_bound(JsonWriter& json, const std::optional<DataVerdict>& verdict);

/// Return "data-bound 62 %: map normalize, 41 k rows/s on rank 3". A dataset other than `train` is
/// named: "map normalize of val".
std::string data_verdict_text(const DataVerdict& verdict);

/// Return "41 k rows/s".
std::string rows_per_s_text(double rows_per_s);

/// Decides what to say while the run goes on: once it has been data-bound for long, by the same
/// operator, and once it has not been for as long.
class DataBoundWatch {
 public:
  static constexpr double kShareMin = 0.2;  // below, it is not worth a line
  static constexpr Duration kLasts = seconds(30);
  static constexpr int kLinesMax = 64;

  struct Change {
    bool bound = false;
    std::string text = {};  // one line
  };
  /// Take the newest verdict, each second or so. Return what is to be said, if anything.
  std::optional<Change> judged(const std::optional<DataVerdict>& verdict, TimePoint now);

 private:
  bool said_ = false;
  int lines_ = 0;
  std::string said_of_;  // the dataset and operator
  std::string of_;       // for which it has been bound
  std::optional<TimePoint> since_, free_since_;
};

}  // namespace train
