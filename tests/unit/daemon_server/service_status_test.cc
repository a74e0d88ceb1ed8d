#include "daemon/server/service_status.h"

#include <gtest/gtest.h>

#include "daemon/server/health_port.h"

namespace train {
namespace {

TEST(ServiceStatusText, SaysWhatTheNodeDoes) {
  EXPECT_EQ(service_status_text({}), "0 runs, 0 supervisors");
  EXPECT_EQ(service_status_text({.runs = 1, .supervisors = 2}), "1 run, 2 supervisors");
  EXPECT_EQ(service_status_text({.runs = 2, .supervisors = 1, .draining = true}),
            "draining: 2 runs, 1 supervisor");
  EXPECT_EQ(service_status_text({.adopting = true}),
            "looking for the supervisors of an earlier traind");
}

TEST(NotReady, IsANodeThatTakesNoWorkers) {
  EXPECT_EQ(not_ready_because({}), "");
  EXPECT_EQ(not_ready_because({.adopting = true}), "looking for supervisors");
  EXPECT_EQ(not_ready_because({.draining = true, .adopting = true}), "draining");
}

}  // namespace
}  // namespace train
