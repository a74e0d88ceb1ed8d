// The session of an ingest worker, and what ranks are told of ingest workers.
#include <future>

#include "sdk/client/ingest.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

IngestRoster roster(std::uint64_t version, std::string name) {
  return {version, {{.name = std::move(name), .dataset = "train", .socket = "/s", .flight = "f"}}};
}

TEST(SupervisedSession, KnowsTheNewestRosterOfIngestWorkers) {
  Worker worker;
  EXPECT_EQ(worker.session->ingest_roster(), IngestRoster{});

  for (const auto& one :
       {roster(2, "two"), roster(1, "late"), roster(3, "three"), roster(3, "the same version")})
    worker.supervisor.send(TellIngestRoster{one});

  EXPECT_TRUE(
      fakes::eventually([&] { return worker.session->ingest_roster() == roster(3, "three"); }));
}

Welcome ingest_welcome() {
  Welcome w = welcome();
  w.ingest = {.name = "ingest-train-0001", .dataset = "train", .socket = "/s/1", .flight = true};
  return w;
}

TEST(SupervisedSession, OfAnIngestWorkerSaysThatItServesAndHowBusyItIs) {
  Worker worker(ingest_welcome());

  worker.session->ingest_up("10.0.0.1:4711");
  worker.session->ingest_busy({.rows = 5, .bytes = 60, .cpu_us = 700});

  EXPECT_EQ(worker.supervisor.wait_for<IngestUp>(),
            (IngestUp{"ingest-train-0001", "train", 0, "/s/1", "10.0.0.1:4711"}));
  EXPECT_EQ(worker.supervisor.wait_for<IngestLoad>(),
            (IngestLoad{"ingest-train-0001", "train", 0, 5, 60, 700}));
  EXPECT_EQ(worker.session->info().ingest.socket, "/s/1");
}

TEST(SupervisedSession, OfAnIngestWorkerTakesNoPartInTheTraining) {
  Worker worker(ingest_welcome());
  const std::string why =
      "unavailable: this process is an ingest worker (ingest-train-0001): it has no rank, and only "
      "serves its dataset, from train::run()";

  EXPECT_EQ(failure_of([&] { worker.session->report({{"step", 1}}, nullptr); }), why);
  EXPECT_EQ(failure_of([&] { worker.session->report({}, nullptr); }), why);
  EXPECT_EQ(
      failure_of([&] { worker.session->all_gather("x", "", std::chrono::milliseconds::max()); }),
      why);
  EXPECT_EQ(failure_of([&] { worker.session->once_per_node("x", [] {}); }), why);
  EXPECT_FALSE(worker.session->ingest_stop().stop_requested());
}

TEST(SupervisedSession, OfAnIngestWorkerEndsAsItIsToldAndWithItsSupervisor) {
  for (const bool told : {true, false}) {
    Worker worker(ingest_welcome());
    std::promise<void> stopped;
    // What is woken may call the session.
    const std::stop_callback wakes(worker.session->ingest_stop(), [&] {
      (void)worker.session->ingest_roster();
      stopped.set_value();
    });

    if (told)
      worker.supervisor.send(StopIngest{"train", 1});
    else
      worker.supervisor.hang_up();

    EXPECT_EQ(stopped.get_future().wait_for(std::chrono::seconds(20)), std::future_status::ready);
  }
}

TEST(SupervisedSession, OfARankIsNoIngestWorker) {
  Worker worker;

  EXPECT_EQ(failure_of([&] { worker.session->ingest_up(""); }),
            "unavailable: this process was not started as an ingest worker");
  EXPECT_EQ(failure_of([&] { worker.session->ingest_busy({}); }),
            "unavailable: this process was not started as an ingest worker");
}

}  // namespace
}  // namespace train::sdk
