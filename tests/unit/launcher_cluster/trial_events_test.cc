#include "launcher/cluster/sweep/trial_events.h"

#include <gtest/gtest.h>

#include <boost/json/parse.hpp>

namespace train {
namespace {

std::optional<TrialEvent> read(const char* text) {
  return trial_event(boost::json::parse(text).as_object());
}

TEST(TrialEvents, AreThoseThatASweepNeeds) {
  EXPECT_EQ(read(R"({"event": "run", "logged": 7, "bytes": 9})"), TrialEvent(TrialLogged{7}));
  EXPECT_EQ(read(R"({"event": "logged", "bytes": 9})"), TrialEvent(TrialLogged{9}));
  EXPECT_EQ(read(R"({"event": "checkpoint", "path": "/c", "attempt": 2, "report_seq": 5})"),
            TrialEvent(TrialCommitted{"/c", 2, 5}));
  EXPECT_EQ(read(R"({"event": "end", "code": 1, "cause": "why"})"),
            TrialEvent(TrialRunEnded{"why", false}));
  EXPECT_EQ(read(R"({"event": "end", "code": 1, "exit_code": 78, "cause": "why"})"),
            TrialEvent(TrialRunEnded{"why", true}));
  for (const char* other : {R"({"event": "attempt"})", R"({"event": "logged", "bytes": -1})",
                            R"({"event": "logged", "bytes": "9"})", R"({"event": 3})", "{}"})
    EXPECT_EQ(read(other), std::nullopt) << other;
}

}  // namespace
}  // namespace train
