#include "launcher/core/ingest_history.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

#include "launcher/core/run_history.h"

namespace train {
namespace {

using Counts = std::map<std::string, IngestCounts>;

IngestChanged changed(std::uint32_t attempt, const std::string& dataset, int wanted, int serving,
                      std::uint32_t deaths) {
  return {Attempt{attempt}, dataset, wanted, serving, deaths};
}

TEST(IngestHistory, HasTheNewestNumbersAndTheDeathsOfAllAttempts) {
  IngestHistory history;
  for (const IngestChanged& one :
       {changed(0, "train", 2, 0, 0), changed(0, "train", 2, 2, 1), changed(0, "valid", 1, 1, 0),
        changed(1, "train", 2, 1, 0), changed(1, "train", 3, 2, 4)})
    history.add(record_of(one));

  EXPECT_EQ(history.counts(), (Counts{{"train", {3, 2, 5}}, {"valid", {1, 1, 0}}}));
  EXPECT_EQ(history.counts(/*live=*/false).at("train"), (IngestCounts{3, 0, 5}));
}

TEST(IngestHistory, SkipsWhatItDoesNotKnowAndKeepsItsLimits) {
  IngestHistory history;
  for (const char* record :
       {"{}", R"({"event": "state", "dataset": "x"})", R"({"event": 7})",
        R"({"event": "ingest_workers", "dataset": "a", "wanted": -5, "serving": "x",
            "deaths": 18446744073709551615, "attempt": null})"})
    history.add(boost::json::parse(record).as_object());
  EXPECT_EQ(history.counts(), (Counts{{"a", {0, 0, std::int64_t{1} << 32}}}));

  for (int i = 0; i < 2000; ++i) history.add(record_of(changed(0, std::to_string(i), 1, 1, 0)));
  EXPECT_EQ(history.counts().size(), IngestHistory::kDatasetsMax);
}

}  // namespace
}  // namespace train
