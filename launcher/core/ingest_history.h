// How many ingest workers each dataset of a run has, and how many have died: a fold over the
// journal's records of IngestChanged. Any text may be in the records. Pure.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <map>
#include <string>

namespace train {

struct IngestCounts {
  std::int64_t wanted = 0, serving = 0;  // of the newest attempt
  std::int64_t deaths = 0;               // in all attempts
  bool operator==(const IngestCounts&) const = default;
};

class IngestHistory {
 public:
  static constexpr std::size_t kDatasetsMax = 1000;

  /// Take in a record of the journal. All others are skipped.
  void add(const boost::json::object& event);
  /// Return the counts by dataset. `live`: of a run that has ended, none serves any more.
  std::map<std::string, IngestCounts> counts(bool live = true) const;

 private:
  struct Dataset {
    std::int64_t attempt = -1;
    IngestCounts newest = {};        // with the deaths of this attempt
    std::int64_t deaths_before = 0;  // in earlier ones
  };
  std::map<std::string, Dataset> datasets_;
};

}  // namespace train
