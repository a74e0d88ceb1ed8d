// What a worker's session sends, waits for and hears.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "lib/wire/reports.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

TEST(SupervisedSession, KnowsWhatTheWelcomeSays) {
  Worker worker(welcome(4, 2));

  const WorkerHello hello = worker.supervisor.wait_for<WorkerHello>();
  EXPECT_EQ(hello.rank, 2);
  EXPECT_EQ(hello.attempt, 3u);
  EXPECT_EQ(hello.pid, 42);
  const WorkerInfo& info = worker.session->info();
  EXPECT_TRUE(info.supervised);
  EXPECT_EQ(info.world_size, 4);
  EXPECT_EQ(info.rank, 2);
  EXPECT_EQ(info.attempt, 3u);
  EXPECT_EQ(info.run_name, "demo");
  EXPECT_EQ(info.config.get<double>("lr"), 0.5);
  EXPECT_EQ(info.metadata, (Dict{{"team", "vision"}}));
  EXPECT_EQ(info.restored_epoch, std::nullopt);
}

TEST(SupervisedSession, ReadsTheWholeWelcome) {
  Welcome w;
  w.ranks.world_size = 8, w.ranks.rank = 5, w.ranks.local_rank = 1, w.ranks.local_world_size = 4;
  w.ranks.node_rank = 2, w.ranks.node_count = 3, w.attempt = 6;
  w.run.run_id = "id", w.run.run_name = "name", w.run_dir = "/run", w.staging_dir = "/staging";
  w.run.config_json = R"({"lr":0.5})";
  w.run.metadata_json = "null";
  w.run.datasets_json = R"({"train":{"path":"x"}})";
  w.run.master_addr = "10.0.0.1", w.run.master_port = 29500, w.master_listen_fd = 7;
  w.run.collectives = "gloo", w.run.collective_timeout_ms = 1234;
  w.run.restore_dir = "/run/checkpoints/checkpoint_000003", w.run.restored_epoch = 0;

  const WorkerInfo info = to_worker_info(w);

  EXPECT_EQ(info.world_size, 8);
  EXPECT_EQ(info.rank, 5);
  EXPECT_EQ(info.local_rank, 1);
  EXPECT_EQ(info.local_world_size, 4);
  EXPECT_EQ(info.node_rank, 2);
  EXPECT_EQ(info.node_count, 3);
  EXPECT_EQ(info.attempt, 6u);
  EXPECT_EQ(info.run_id, "id");
  EXPECT_EQ(info.run_name, "name");
  EXPECT_EQ(info.run_dir, "/run");
  EXPECT_EQ(info.staging_dir, "/staging");
  EXPECT_EQ(info.config.values(), (Dict{{"lr", 0.5}}));
  EXPECT_EQ(info.metadata, Dict{});
  EXPECT_EQ(info.datasets, (Dict{{"train", Dict{{"path", "x"}}}}));
  EXPECT_EQ(info.master_addr, "10.0.0.1");
  EXPECT_EQ(info.master_port, 29500);
  EXPECT_EQ(info.master_listen_fd, 7);
  EXPECT_EQ(info.collectives, "gloo");
  EXPECT_EQ(info.collective_timeout, std::chrono::milliseconds(1234));
  EXPECT_EQ(info.restore_dir, "/run/checkpoints/checkpoint_000003");
  EXPECT_EQ(info.restored_epoch, 0);
  w.run.restored_epoch = -1;
  EXPECT_EQ(to_worker_info(w).restored_epoch, std::nullopt);
}

TEST(SupervisedSession, SendsReportsInOrderWithFlatNames) {
  Worker worker;

  worker.session->report({{"step", 1}, {"val", Dict{{"acc", 0.5}, {"ok", true}}}}, nullptr);
  worker.session->report({{"step", 2}, {"note", "warm"}}, nullptr);

  const auto reports = worker.supervisor.wait_for_reports(2);
  ASSERT_EQ(reports.size(), 2u);
  EXPECT_EQ(reports[0].report_seq, 1u);
  EXPECT_EQ(reports[0].metrics,
            (Metrics{{"step", std::int64_t{1}}, {"val.acc", 0.5}, {"val.ok", true}}));
  EXPECT_EQ(reports[1].report_seq, 2u);
  EXPECT_EQ(reports[1].metrics,
            (Metrics{{"note", std::string("warm")}, {"step", std::int64_t{2}}}));
  EXPECT_EQ(reports[1].attempt, 3u);
  EXPECT_FALSE(reports[1].has_checkpoint);
}

TEST(SupervisedSession, KeepsTheOrderOfEachThread) {
  constexpr int kThreads = 8, kReports = 10'000;
  Worker worker;

  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kReports; ++i) worker.session->report({{"thread", t}, {"i", i}}, nullptr);
    });
  }
  for (std::thread& thread : threads) thread.join();

  const auto reports = worker.supervisor.wait_for_reports(std::size_t{kThreads} * kReports);
  ASSERT_EQ(reports.size(), std::size_t{kThreads} * kReports);
  std::vector<std::int64_t> next(kThreads, 0);
  for (std::size_t n = 0; n < reports.size(); ++n) {
    ASSERT_EQ(reports[n].report_seq, n + 1);
    const auto thread =
        static_cast<std::size_t>(std::get<std::int64_t>(reports[n].metrics[1].second));
    ASSERT_EQ(std::get<std::int64_t>(reports[n].metrics[0].second), next[thread]++);
  }
}

TEST(SupervisedSession, WaitsForRoomWhenEightMebibytesAreNotAcknowledged) {
  Worker worker;
  worker.supervisor.ack_reports(false);
  const std::string large(60'000, 'x');
  std::atomic<int> reported = 0;

  auto reporting = std::async(std::launch::async, [&] {
    for (int i = 0; i < 200; ++i) {
      worker.session->report({{"text", large}}, nullptr);
      ++reported;
    }
  });
  // 139 reports of 60,018 bytes fit into 8,388,608.
  const auto before = worker.supervisor.wait_for_reports(139);
  EXPECT_EQ(before.size(), 139u);
  EXPECT_LE(reported, 139);
  worker.supervisor.ack_reports(true);
  worker.supervisor.send(AckReports{.acks = {{.rank = 0, .report_seq = 139}}});
  reporting.get();

  EXPECT_EQ(worker.supervisor.wait_for_reports(200).size(), 200u);
}

Histogram counted(std::size_t bins) {
  return {.min = 0, .max = 1, .counts = std::vector<std::uint64_t>(bins, 7)};
}

TEST(SupervisedSession, SendsHistogramsWithTheNextReport) {
  Worker worker;

  worker.session->report({{"step", 1}}, nullptr);
  worker.session->add_histogram("fc2", counted(4));
  worker.session->add_histogram("fc1", counted(1));
  worker.session->add_histogram("fc1", counted(2));  // in place of the other
  EXPECT_NE(failure_of([&] { worker.session->report({{"bad", Value()}}, nullptr); }), "");
  worker.session->report({{"step", 2}}, nullptr);
  worker.session->report({{"step", 3}}, nullptr);

  const auto reports = worker.supervisor.wait_for_reports(3);
  ASSERT_EQ(reports.size(), 3u);
  EXPECT_EQ(reports[0].histograms, Histograms{});
  EXPECT_EQ(reports[1].metrics, (Metrics{{"step", std::int64_t{2}}}));
  EXPECT_EQ(reports[1].histograms, (Histograms{{"fc1", counted(2)}, {"fc2", counted(4)}}));
  EXPECT_EQ(reports[2].histograms, Histograms{});
}

TEST(SupervisedSession, RefusesHistogramsThatDoNotFitIntoAReport) {
  Worker worker;
  const auto add = [&](const std::string& name, const Histogram& histogram) {
    return failure_of([&] { worker.session->add_histogram(name, histogram); });
  };
  for (std::size_t i = 0; i < 64; ++i) worker.session->add_histogram(fmt::to_string(i), counted(8));

  EXPECT_EQ(add("fc1", counted(8)),
            "invalid_argument: histogram 'fc1': 64 others wait for the next report, and no more "
            "fit into one");
  Histogram large = counted(256);
  std::fill(large.counts.begin(), large.counts.end(), std::uint64_t{1} << 40);
  std::string refused = "nothing was thrown";
  for (int i = 0; i < 64 && refused == "nothing was thrown"; ++i)
    refused = add(fmt::to_string(i), large);
  EXPECT_EQ(refused,
            "invalid_argument: histogram '13': with the others that wait for the next report it "
            "has 34274 bytes, at most 32768 fit into one (take fewer bins)");
  // What was taken stays, and fits.
  worker.session->report({{"step", 1}}, nullptr);
  EXPECT_EQ(worker.supervisor.wait_for_reports(1).at(0).histograms.size(), 64u);
}

TEST(SupervisedSession, RefusesMetricsThatNoLogCanKeep) {
  Worker worker;
  const auto report = [&](const Dict& metrics) {
    return failure_of([&] { worker.session->report(metrics, nullptr); });
  };

  EXPECT_EQ(report({{"loss", Value()}}),
            "invalid_argument: report: metric 'loss' is null (a metric is a number, a bool or a "
            "string, or a dict of such)");
  EXPECT_EQ(report({{"a", Dict{{"b", List{1, 2}}}}}),
            "invalid_argument: report: metric 'a.b' is a list of 2 (a metric is a number, a bool "
            "or a string, or a dict of such)");
  EXPECT_EQ(report({{"a", Dict{{"b", 1}}}, {"a.b", 2}}),
            "invalid_argument: report: two metrics have the name 'a.b'");
  Dict many;
  for (int i = 0; i < 4097; ++i) many["m" + std::to_string(i)] = 1;
  EXPECT_EQ(report(many),
            "invalid_argument: report: 4097 metrics, at most 4096 fit into one report (put large "
            "values into a checkpoint or a file)");
  EXPECT_EQ(report({{"text", std::string(70'000, 'x')}}),
            "invalid_argument: report: 70022 bytes of metrics, at most 65536 fit into one report "
            "(put large values into a checkpoint or a file)");
}

TEST(SupervisedSession, LetsGoOfASupervisorThatSpeaksNonsense) {
  const auto reason = [](auto message) {
    Worker worker(welcome(2));
    worker.supervisor.send(message);
    return failure_of(
        [&] { worker.session->all_gather("rows", "", std::chrono::milliseconds::max()); });
  };
  EXPECT_EQ(reason(WorkerGoodbye{}),
            "unavailable: the supervisor sent a WorkerGoodbye frame, which is not for workers");
  EXPECT_EQ(reason(PauseWorkers{.step = "rest", .report_seq = 0, .reason = ""}),
            "unavailable: PauseWorkers with the unknown step 'rest'");
}

TEST(SupervisedSession, RefusesAResultThatIsTooLarge) {
  Worker worker;
  worker.session->set_result(std::string(1 << 20, 'x'));
  EXPECT_EQ(worker.supervisor.wait_for<WorkerResult>().json.size(), 1u << 20);
  EXPECT_EQ(failure_of([&] { worker.session->set_result(std::string((1 << 20) + 1, 'x')); }),
            "invalid_argument: set_result: 1048577 bytes of JSON, at most 1048576 fit");
}

TEST(SupervisedSession, MakesRoomForItsOwnRanksAcknowledgementsOnly) {
  Worker worker(welcome(2, 1));
  worker.supervisor.ack_reports(false);
  const std::string large(60'000, 'x');
  std::atomic<int> reported = 0;
  auto reporting = std::async(std::launch::async, [&] {
    for (int i = 0; i < 140; ++i, ++reported) worker.session->report({{"text", large}}, nullptr);
  });
  worker.supervisor.wait_for_reports(139);  // more do not fit
  worker.supervisor.answer_collectives(true);

  worker.supervisor.send(AckReports{.acks = {{.rank = 0, .report_seq = 139}}});
  worker.session->all_gather("settle", "", std::chrono::milliseconds::max());
  EXPECT_LE(reported, 139);
  worker.supervisor.send(
      AckReports{.acks = {{.rank = 0, .report_seq = 139}, {.rank = 1, .report_seq = 139}}});
  reporting.get();
}

TEST(SupervisedSession, PausesGoesOnAndStopsWhereAllRanksStop) {
  Worker worker;
  worker.session->on_stop([] { return writing("last"); });
  worker.session->report({{"step", 1}}, nullptr);
  EXPECT_FALSE(worker.session->should_stop());
  worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  auto loop = std::async(std::launch::async, [&] {
    return failure_of([&] {
      while (!worker.session->should_stop()) std::this_thread::yield();
      for (int step = 2; step < 100; ++step) worker.session->report({{"step", step}}, nullptr);
    });
  });

  // It pauses after report 2; the others are at 4.
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(0).report_seq, 2u);
  worker.supervisor.send(PauseWorkers{.step = "advance", .report_seq = 4, .reason = ""});
  const auto arrived = worker.supervisor.wait_for<WorkerPaused>(1);
  EXPECT_TRUE(arrived.arrived);
  EXPECT_TRUE(arrived.checkpoint_pending);
  EXPECT_EQ(arrived.checkpoint_seq, 0u);
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 0u);
  worker.supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = 4, .reason = ""});
  const auto paused = worker.supervisor.wait_for<WorkerPaused>(2);
  const auto staged = worker.supervisor.wait_for<CheckpointStaged>();
  worker.supervisor.send(
      PauseWorkers{.step = "finish", .report_seq = 0, .reason = "stopped by Ctrl-C"});

  EXPECT_EQ(loop.get(), "stopped: stopped by Ctrl-C");
  EXPECT_EQ(paused.report_seq, 4u);
  EXPECT_EQ(paused.checkpoint_seq, 1u);
  EXPECT_FALSE(paused.checkpoint_pending);
  EXPECT_EQ(staged.checkpoint_seq, 1u);
  EXPECT_EQ(staged.report_seq, 4u);
  EXPECT_EQ(worker.supervisor.reports().size(), 4u);
  EXPECT_EQ(failure_of([&] { worker.session->report({}, nullptr); }), "stopped: stopped by Ctrl-C");
}

/// In another thread, wait until the ranks are to stop, and report once. Return why that threw.
std::future<std::string> report_at_the_stop(Worker& worker, bool with_checkpoint = false) {
  return std::async(std::launch::async, [&worker, with_checkpoint] {
    return failure_of([&] {
      while (!worker.session->should_stop()) std::this_thread::yield();
      const Checkpoint checkpoint = writing("mine");
      worker.session->report({}, with_checkpoint ? &checkpoint : nullptr);
    });
  });
}

TEST(SupervisedSession, ReportsDuringTheStopDoNotMoveThePlaceOfTheStop) {
  Worker worker;
  worker.session->on_stop([&] {
    worker.session->report({{"from", "on_stop"}}, nullptr);
    return writing("last");
  });
  worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  auto loop = report_at_the_stop(worker);
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(0).report_seq, 1u);
  worker.supervisor.send(PauseWorkers{.step = "advance", .report_seq = 1, .reason = ""});
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(1).report_seq, 1u);
  worker.supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = 1, .reason = ""});
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(2).report_seq, 1u);
  auto monitoring = report_at_the_stop(worker);
  worker.supervisor.wait_for_reports(3);
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "done"});

  EXPECT_EQ(loop.get(), "stopped: done");
  EXPECT_EQ(monitoring.get(), "stopped: done");
  EXPECT_EQ(worker.supervisor.count(MessageType::WorkerPaused), 3u);
}

// A rank that nobody could reach came to its end: the others go on to theirs.
TEST(SupervisedSession, MakesNoCheckpointAtAMeetingThatMovedOn) {
  Worker worker;
  worker.session->on_stop([] { return writing("not wanted"); });
  worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  auto loop = std::async(std::launch::async, [&] {
    return failure_of([&] {
      while (!worker.session->should_stop()) std::this_thread::yield();
      for (int step = 1; step <= 3; ++step) worker.session->report({{"step", step}}, nullptr);
    });
  });
  worker.supervisor.wait_for<WorkerPaused>(0);
  worker.supervisor.send(PauseWorkers{.step = "advance", .report_seq = 1, .reason = ""});
  EXPECT_TRUE(worker.supervisor.wait_for<WorkerPaused>(1).checkpoint_pending);
  worker.supervisor.send(PauseWorkers{.step = "advance", .report_seq = UINT64_MAX, .reason = ""});

  EXPECT_EQ(loop.get(), "nothing was thrown");
  worker.supervisor.wait_for_reports(3);
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 0u);
}

TEST(SupervisedSession, MakesNoCheckpointAtTheStopWhenTheReportHadOne) {
  Worker worker;
  worker.session->on_stop([] { return writing("not wanted"); });
  worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  auto loop = report_at_the_stop(worker, /*with_checkpoint=*/true);
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(0).checkpoint_seq, 1u);
  worker.supervisor.send(PauseWorkers{.step = "advance", .report_seq = 1, .reason = ""});
  EXPECT_EQ(worker.supervisor.wait_for<WorkerPaused>(1).report_seq, 1u);
  worker.supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = 1, .reason = ""});
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "done"});

  EXPECT_EQ(loop.get(), "stopped: done");
  EXPECT_FALSE(worker.supervisor.wait_for<WorkerPaused>(1).checkpoint_pending);
  worker.supervisor.wait_for<CheckpointStaged>(
      0);  // from a thread of the SDK, perhaps a little later
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 1u);
}

TEST(SupervisedSession, AReportOfAnotherThreadAsksForNoSecondCheckpointAtTheStop) {
  Worker worker;
  worker.session->on_stop([] { return writing("not wanted"); });
  worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  auto loop = report_at_the_stop(worker, /*with_checkpoint=*/true);
  worker.supervisor.wait_for<WorkerPaused>(0);
  worker.supervisor.send(PauseWorkers{.step = "advance", .report_seq = 1, .reason = ""});
  EXPECT_FALSE(worker.supervisor.wait_for<WorkerPaused>(1).checkpoint_pending);
  auto monitoring = report_at_the_stop(worker);
  worker.supervisor.wait_for_reports(2);
  worker.supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = 1, .reason = ""});
  worker.supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "done"});

  EXPECT_EQ(loop.get(), "stopped: done");
  EXPECT_EQ(monitoring.get(), "stopped: done");
  worker.supervisor.wait_for<CheckpointStaged>(0);
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 1u);
  EXPECT_EQ(worker.supervisor.count(MessageType::WorkerPaused), 2u);
}

TEST(SupervisedSession, StopsAWorkerThatWaitsInACollective) {
  Worker worker(welcome(2));
  auto waiting = std::async(std::launch::async, [&] {
    return failure_of(
        [&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds::max()); });
  });
  worker.supervisor.wait_for<CollectiveJoin>();

  worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  worker.supervisor.send(
      PauseWorkers{.step = "finish", .report_seq = 0, .reason = "stopped by SIGTERM"});

  EXPECT_EQ(waiting.get(), "stopped: stopped by SIGTERM");
}

TEST(SupervisedSession, TellsTheBeginningOfAnErrorHoweverLong) {
  Worker worker;
  const auto long_text = [](char letter) {
    return std::string(1, letter) + std::string(5u << 20, 'x');  // too large for a frame
  };

  worker.session->send_error(
      {.what = long_text('w'), .type = long_text('t'), .stack = long_text('s')});
  worker.session->report({{"epoch", 1}}, nullptr);

  const auto told = worker.supervisor.wait_for<WorkerError>().error;
  for (const auto& [text, letter] : std::initializer_list<std::pair<std::string, char>>{
           {told.what, 'w'}, {told.type, 't'}, {told.stack, 's'}}) {
    EXPECT_EQ(text.size(), std::size_t{1} << 20) << letter;
    EXPECT_EQ(text.substr(0, 2), std::string(1, letter) + "x");
  }
  EXPECT_EQ(worker.supervisor.wait_for_reports(1).size(), 1u);
}

TEST(SupervisedSession, FlushesUntilAllIsSent) {
  Worker worker;
  worker.supervisor.read(false);
  for (int error = 0; error < 8; ++error)  // more than a socket holds
    worker.session->send_error({.what = std::string(1u << 20, 'x'), .type = "", .stack = ""});
  std::promise<void> about_to_flush;
  auto flushed = std::async(std::launch::async, [&] {
    about_to_flush.set_value();
    worker.session->flush(std::chrono::hours(1));
  });
  about_to_flush.get_future().wait();
  EXPECT_EQ(flushed.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);

  worker.supervisor.read(true);

  flushed.get();
  worker.supervisor.wait_for<WorkerError>(7);
}

// Such as a thread that calls exit() while the loop ends.
TEST(SupervisedSession, SaysGoodbyeOnce) {
  Worker worker;
  worker.supervisor.answer_goodbye(false);
  auto ending = std::async(std::launch::async, [&] { worker.session->finish(); });
  worker.supervisor.wait_for<WorkerGoodbye>();

  worker.session->finish();
  worker.session->send_error({.what = "late", .type = "", .stack = ""});

  worker.supervisor.send(GoodbyeAck{});
  ending.get();
  EXPECT_EQ(worker.supervisor.frame_names(),
            (std::vector<std::string>{"WorkerHello", "WorkerGoodbye"}));
}

TEST(SupervisedSession, SaysGoodbyeBehindEverythingElse) {
  Worker worker;
  const Checkpoint checkpoint = writing("x");
  worker.session->report({{"step", 1}}, &checkpoint);
  worker.session->set_result("[1]");
  worker.session->set_result("[2]");

  worker.session->finish();

  const auto names = worker.supervisor.frame_names();
  EXPECT_EQ(names.back(), "WorkerGoodbye");
  EXPECT_EQ(worker.supervisor
                .wait_for<WorkerResult>(worker.supervisor.count(MessageType::WorkerResult) - 1)
                .json,
            "[2]");
  EXPECT_EQ(worker.supervisor.count(MessageType::CheckpointStaged), 1u);
  EXPECT_EQ(failure_of([&] { worker.session->report({}, nullptr); }),
            "unavailable: this worker has said goodbye: the loop is over");
  worker.session->finish();
  EXPECT_EQ(worker.supervisor.count(MessageType::WorkerGoodbye), 1u);
}

// A loop that ends because of should_stop() is not through.
TEST(SupervisedSession, ItsGoodbyeSaysWhetherItWasToldToStop) {
  for (const bool asks : {true, false}) {
    Worker worker;
    worker.supervisor.answer_collectives(true);
    worker.supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
    worker.session->all_gather("settle", "", std::chrono::milliseconds::max());
    if (asks) EXPECT_TRUE(worker.session->should_stop());

    worker.session->finish();

    EXPECT_EQ(worker.supervisor.wait_for<WorkerGoodbye>(0).told_to_stop, asks);
  }
}

TEST(SupervisedSession, EndsWithoutAGoodbyeWhereTheSupervisorIsGone) {
  Worker worker;
  worker.supervisor.answer_collectives(true);
  worker.supervisor.hang_up();
  EXPECT_EQ(failure_of([&] {
              worker.session->all_gather("barrier", "", std::chrono::milliseconds::max());
            }),
            "unavailable: the supervisor closed the connection");
  EXPECT_EQ(failure_of([&] { worker.session->set_result("1"); }),
            "unavailable: the supervisor closed the connection");
  EXPECT_EQ(failure_of([&] { worker.session->once_per_node("prepare", [] {}); }),
            "unavailable: the supervisor closed the connection");

  testing::internal::CaptureStderr();
  worker.session->finish();

  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "trainrun: rank 0 ended before its supervisor had taken all reports: the supervisor "
            "closed the connection\n");
}

TEST(SupervisedSession, FailsEveryCallOnceTheSupervisorIsGone) {
  Worker worker(welcome(2));
  auto waiting = std::async(std::launch::async, [&] {
    return failure_of(
        [&] { worker.session->all_gather("barrier", "", std::chrono::milliseconds::max()); });
  });
  worker.supervisor.wait_for<CollectiveJoin>();

  worker.supervisor.hang_up();

  EXPECT_EQ(waiting.get(), "unavailable: the supervisor closed the connection");
  EXPECT_EQ(failure_of([&] { worker.session->report({}, nullptr); }),
            "unavailable: the supervisor closed the connection");
}

}  // namespace
}  // namespace train::sdk
