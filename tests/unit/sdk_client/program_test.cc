// Complete user programs: how they end under a supervisor, and what they do without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>

#include "lib/wire/reports.h"
#include "tests/unit/sdk_client/programs.h"

namespace train {
namespace {

TEST(WorkerProgram, TellsWhatItsLoopThrew) {
  FakeSupervisor supervisor(alone());
  const Ended ended = run(supervisor.folder(), {WORKER, "throws"}, under(supervisor));

  EXPECT_EQ(ended.code, 1);
  const auto error = supervisor.wait_for<WorkerError>().error;
  EXPECT_EQ(error.what, "row 7 of 5");
  EXPECT_EQ(error.type, "std::out_of_range");
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  // The stack names the program's functions, although it is not linked with -rdynamic, and omits
  // those below and between them.
  EXPECT_THAT(error.stack,
              testing::MatchesRegex("#0 main::.lambda.*sdk_client_worker.0x[0-9a-f]+.\n"
                                    "(#1 std::_Function_handler.*\n)?"  // unless it is inlined
                                    "#[12] main .sdk_client_worker.0x[0-9a-f]+.\n"));
  EXPECT_THAT(error.stack, testing::Not(testing::HasSubstr("libc.so")));
  EXPECT_THAT(ended.out, testing::Not(testing::HasSubstr("thrown at"))) << "train-run shows it";
#endif
  EXPECT_NE(
      ended.out.find("trainrun: rank 0: the training loop threw std::out_of_range: row 7 of 5"),
      std::string::npos)
      << ended.out;
  EXPECT_EQ(supervisor.frame_names(),
            (std::vector<std::string>{"WorkerHello", "WorkerError", "WorkerGoodbye"}));
}

TEST(WorkerProgram, HandsOverItsReportsWhenItCallsExit) {
  FakeSupervisor supervisor(alone());
  EXPECT_EQ(run(supervisor.folder(), {WORKER, "exits"}, under(supervisor)).code, 9);
  EXPECT_EQ(supervisor.frame_names(),
            (std::vector<std::string>{"WorkerHello", "ReportBatch", "WorkerGoodbye"}));
}

TEST(WorkerProgram, EndsWithTheCodeOfItsLoop) {
  FakeSupervisor supervisor(alone());
  EXPECT_EQ(run(supervisor.folder(), {WORKER, "code"}, under(supervisor)).code, 42);
  EXPECT_EQ(supervisor.count(MessageType::WorkerError), 0u);
}

TEST(WorkerProgram, MayNeverReport) {
  FakeSupervisor supervisor(alone());
  EXPECT_EQ(run(supervisor.folder(), {WORKER, "silent"}, under(supervisor)).code, 0);
  EXPECT_EQ(supervisor.frame_names(), (std::vector<std::string>{"WorkerHello", "WorkerGoodbye"}));
}

TEST(WorkerProgram, DiesByItsOwnSignalAfterAStack) {
  FakeSupervisor supervisor(alone());
  const Ended ended = run(supervisor.folder(), {WORKER, "segfault"}, under(supervisor));
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_EQ(ended.code, 128 + SIGSEGV);
  EXPECT_NE(ended.out.find("trainrun: rank 0 was hit by SIGSEGV; native stack, innermost first:\n"),
            std::string::npos)
      << ended.out;
#endif
  EXPECT_EQ(supervisor.count(MessageType::WorkerGoodbye), 0u);
}

TEST(WorkerProgram, TellsWhatLeftAThread) {
  FakeSupervisor supervisor(alone());
  const Ended ended = run(supervisor.folder(), {WORKER, "terminates"}, under(supervisor));

  EXPECT_EQ(ended.code, 128 + SIGABRT);
  EXPECT_EQ(supervisor.wait_for<WorkerError>().error.what, "row 7 of 5");
  EXPECT_THAT(ended.out,
              testing::HasSubstr("trainrun: rank 0: an exception left a thread or a noexcept "
                                 "function: std::out_of_range: row 7 of 5\n"));
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_THAT(ended.out, testing::Not(testing::HasSubstr("#0 "))) << "train-run shows it";
  // The stack of abort() would say less than that of the throw, which train-run shows.
  EXPECT_THAT(ended.out, testing::HasSubstr("trainrun: rank 0 was hit by SIGABRT\n"));
#endif
}

TEST(WorkerProgram, ByHandShowsTheStackOfWhatLeftAThread) {
  Folder folder;
  const Ended ended = run(folder.path, {WORKER, "terminates"});
  EXPECT_EQ(ended.code, 128 + SIGABRT);
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
  EXPECT_THAT(ended.out,
              testing::HasSubstr("noexcept function: std::out_of_range: row 7 of 5\n#0 "));
#endif
}

TEST(WorkerProgram, TellsTheTextThatItsLoopThrew) {
  for (const auto& [what, type] : std::map<std::string, std::string>{
           {"throws_text",
            "std::__cxx11::basic_string<char, std::char_traits<char>, "
            "std::allocator<char> >"},
           {"throws_letters", "char const*"}}) {
    FakeSupervisor supervisor(alone());
    EXPECT_EQ(run(supervisor.folder(), {WORKER, what}, under(supervisor)).code, 1);
    const auto error = supervisor.wait_for<WorkerError>().error;
    EXPECT_EQ(error.what, "row 7 of 5");
    EXPECT_EQ(error.type, type);
  }
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
TEST(WorkerProgram, HasRoomToTellOfAStackThatIsFull) {
  FakeSupervisor supervisor(alone());
  const Ended ended = run(supervisor.folder(), {WORKER, "overflows"}, under(supervisor));
  EXPECT_EQ(ended.code, 128 + SIGSEGV);
  EXPECT_THAT(ended.out, testing::HasSubstr("trainrun: rank 0 was hit by SIGSEGV; native stack"));
}
#endif

TEST(WorkerProgram, EndsWellWhereTheRunStopsInItsLoop) {
  FakeSupervisor supervisor(alone());
  auto running = std::async(std::launch::async, [&] {
    return run(supervisor.folder(), {WORKER, "loops"}, under(supervisor));
  });
  supervisor.wait_for_reports(1);
  supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "enough"});

  EXPECT_EQ(running.get().code, 0);
  EXPECT_EQ(supervisor.count(MessageType::WorkerError), 0u);
  EXPECT_EQ(supervisor.frame_names().back(), "WorkerGoodbye");
}

TEST(WorkerProgram, StartedAheadFindsItsEnvironmentOnceItHasARank) {
  Welcome w = alone();
  w.env = {{"RANK", "0"}, {"EXTRA", "x"}};
  FakeSupervisor supervisor(w);

  const Ended ended =
      run(supervisor.folder(), {WORKER, "environment"},
          {{"TRAINRUN_SOCKET", supervisor.socket()}, {"TRAINRUN_STANDBY", "3"}, {"RANK", "9"}});

  EXPECT_EQ(ended.out, "RANK 0, EXTRA x, TRAINRUN_STANDBY none\n");
  EXPECT_EQ(supervisor.wait_for<WorkerHello>().standby, 3);
}

TEST(WorkerProgram, IsToldThatAForksChildCannotReport) {
  FakeSupervisor supervisor(alone());
  EXPECT_EQ(run(supervisor.folder(), {WORKER, "fork"}, under(supervisor)).code, 0);
  const auto reports = supervisor.wait_for_reports(2);
  EXPECT_EQ(reports[1].metrics, (Metrics{{"child", std::int64_t{7}}}));
  EXPECT_EQ(supervisor.count(MessageType::WorkerGoodbye), 1u);
}

TEST(WorkerProgram, MayRunOnlyOnce) {
  FakeSupervisor supervisor(alone());
  EXPECT_EQ(run(supervisor.folder(), {WORKER, "nested"}, under(supervisor)).code, 1);
  EXPECT_EQ(supervisor.wait_for<WorkerError>().error.what,
            "train::run is called a second time in this process (call it once, from main)");
}

TEST(WorkerProgram, RefusesAnUnknownFlagOfTheSdk) {
  Folder folder;
  const Ended ended = run(folder.path, {WORKER, "silent", "--trainrun-fast"});
  EXPECT_EQ(ended.code, 2);
  EXPECT_EQ(ended.out,
            "trainrun: unknown flag '--trainrun-fast'; flags that begin with --trainrun- are the "
            "SDK's: --trainrun-spec=FILE\n");
}

TEST(WorkerProgram, IsAWorldOfOneByHandAndResumesFromItsOwnCheckpoints) {
  Folder folder;
  std::ofstream(folder.path / "spec.json") << R"({"train_loop_config":{"lr":0.5}})";

  const Ended first = run(folder.path, {WORKER, "trains", "--trainrun-spec=spec.json"});
  const Ended second = run(folder.path, {WORKER, "trains"}, {{"TRAINRUN_SPEC", "spec.json"}});

  EXPECT_EQ(first.code, 0);
  EXPECT_EQ(first.out,
            "from epoch 0, lr 0.5, value none\nreport 1: epoch=0\ncheckpoint of report 1: "
            "checkpoints/checkpoint_000001\n");
  EXPECT_EQ(second.code, 0);
  EXPECT_EQ(second.out,
            "from epoch 1, lr 0.5, value {\"epoch\":0}\nreport 1: epoch=1\ncheckpoint of report 1: "
            "checkpoints/checkpoint_000002\n");
  EXPECT_TRUE(fs::exists(folder.path / "checkpoints/checkpoint_000002/.manifest.json"));
}

TEST(WorkerProgram, KeepsTheDataPositionsOfTheCheckpointThatItResumesFrom) {
  Folder folder;
  {
    sdk::SoloSession before({}, (folder.path / "checkpoints").string());
    before.set_data_position("train", {3, 640});
    const Checkpoint checkpoint = Checkpoint::from_json(Dict{{"epoch", 3}});
    before.report({{"epoch", 3}}, &checkpoint);
    before.finish();
  }

  EXPECT_EQ(run(folder.path, {WORKER, "trains"}).code, 0);

  PosixFileSystem files;
  const CheckpointStore store(files, (folder.path / "checkpoints").string());
  EXPECT_EQ(store.find(CheckpointNumber{2})->manifest->metadata,
            (boost::json::object{{"data", {{"train", {{"epoch", 3}, {"rows", 640}}}}}}));
}

// torchrun starts it like this: ranks without a supervisor.
TEST(WorkerProgram, WithoutTrainRunEachRankReportsAndRankZerosCheckpointsAreKept) {
  Folder folder;
  const auto as = [](const char* rank) {
    return std::map<std::string, std::string>{
        {"RANK", rank}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", rank}, {"LOCAL_WORLD_SIZE", "2"}};
  };

  const Ended second = run(folder.path, {WORKER, "reports"}, as("1"));
  EXPECT_EQ(second.code, 0) << second.out;
  EXPECT_THAT(second.out, testing::HasSubstr("[rank 1] report 1: epoch=0\n"));
  EXPECT_THAT(second.out,
              testing::HasSubstr("trainrun: without train-run only rank 0's checkpoints are "
                                 "kept, not those of rank 1\n"));
  EXPECT_FALSE(fs::exists(folder.path / "checkpoints"));

  const Ended first = run(folder.path, {WORKER, "reports"}, as("0"));
  EXPECT_EQ(first.code, 0) << first.out;
  EXPECT_EQ(first.out,
            "[rank 0] report 1: epoch=0\n"
            "[rank 0] checkpoint of report 1: checkpoints/checkpoint_000001\n");

  const Ended together = run(folder.path, {WORKER, "trains"}, as("0"));
  EXPECT_NE(together.code, 0);
  EXPECT_THAT(together.out,
              testing::HasSubstr("'barrier' needs trainrun to connect 2 ranks, and this "
                                 "program was started without it"));
}

TEST(WorkerProgram, KnowsItsContextInBothFaces) {
  Welcome w;
  w.ranks.world_size = 8, w.ranks.rank = 5;
  w.ranks.local_world_size = 4, w.ranks.local_rank = 1;
  w.ranks.node_count = 3, w.ranks.node_rank = 2;
  w.attempt = 6;
  w.run.run_id = "id-7", w.run.run_name = "vit", w.run_dir = "/runs/vit";
  w.run.config_json = R"({"lr":0.5})";
  w.run.metadata_json = R"({"team":"vision"})";
  w.run.restored_epoch = 9;
  FakeSupervisor supervisor(w);

  const Ended ended = run(supervisor.folder(), {WORKER, "context"}, under(supervisor));

  const std::string both =
      "rank 5 of 8, 1 of 4 here, node 2 of 3, attempt 6, supervised 1\n"
      "vit (id-7) in /runs/vit, {\"lr\":0.5} {\"team\":\"vision\"}\n";
  EXPECT_EQ(ended.out, both + both +
                           "from epoch 10, share of 22: 3\n"
                           "per_worker_batch: a global batch of 7 is less than one row for each of "
                           "8 workers\n");
}

TEST(WorkerProgram, ByHandIsAWorldOfOne) {
  Folder folder;
  const std::string both =
      "rank 0 of 1, 0 of 1 here, node 0 of 1, attempt 0, supervised 0\n"
      "sdk_client_worker () in , {} {}\n";
  EXPECT_EQ(run(folder.path, {WORKER, "context"}).out,
            both + both + "from epoch 0, share of 22: 22\n");
}

TEST(WorkerProgram, SaysHelloAsTheRankThatItIs) {
  FakeSupervisor supervisor(alone());
  EXPECT_EQ(
      run(supervisor.folder(), {WORKER, "silent"},
          {{"TRAINRUN_SOCKET", supervisor.socket()}, {"RANK", "2"}, {"TRAINRUN_ATTEMPT", "5"}})
          .code,
      0);
  const auto hello = supervisor.wait_for<WorkerHello>();
  EXPECT_EQ(hello.rank, 2);
  EXPECT_EQ(hello.attempt, 5u);
  EXPECT_GT(hello.pid, 0);
  EXPECT_NE(hello.pid, ::getpid());
  EXPECT_EQ(hello.standby, -1);
  EXPECT_TRUE(hello.build.starts_with("trainrun ")) << hello.build;
}

TEST(WorkerProgram, EndsAtOnceWhereItsSupervisorIsNotThere) {
  Folder folder;
  const Ended ended = run(folder.path, {WORKER, "silent"}, {{"TRAINRUN_SOCKET", "/none"}});
  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out,
            "trainrun: no supervisor answers at TRAINRUN_SOCKET=/none: No such file or directory "
            "(unset TRAINRUN_SOCKET to run this program by hand)\n");
}

TEST(WorkerProgram, LeavesFlagsBehindTwoDashesToTheProgram) {
  Folder folder;
  EXPECT_EQ(run(folder.path, {WORKER, "silent", "--", "--trainrun-fast"}).code, 0);
  EXPECT_EQ(run(folder.path, {WORKER, "silent", "--own", "--trainrun-fast"}).code, 2);
}

TEST(WorkerProgram, IsToldWhichCheckpointsThereAre) {
  FakeSupervisor supervisor(alone());
  leave_checkpoint(supervisor.folder());
  const std::string kept = supervisor.folder() + "/checkpoints/checkpoint_000001";
  std::vector<AnsweredCheckpoint> answers;
  std::uint64_t number = 0;
  for (const char* status : {"committed", "pending_validation", "validated", "failed", "timeout"}) {
    answers.push_back({++number, number == 1 ? kept : "/c", status, "", number > 3 ? "why" : ""});
    append_report(0, true, {{"n", static_cast<std::int64_t>(number)}}, answers.back().metrics);
  }
  auto running = std::async(std::launch::async, [&] {
    return run(supervisor.folder(), {WORKER, "asks"}, under(supervisor));
  });
  for (const std::size_t call : {0u, 1u}) {
    const auto ask = supervisor.wait_for<AskCheckpoints>(call);
    EXPECT_EQ(ask.validated, call == 0);
    supervisor.send(ReportedCheckpoints{0, ask.request, answers});
  }

  const auto json = [](const std::string& directory, const char* rest) {
    return "{\"directory\":\"" + directory + "\"," + rest + "}";
  };
  EXPECT_EQ(
      running.get().out,
      "[" + json(kept, R"("error":"","metrics":{"n":1},"number":1,"status":"committed")") + "," +
          json("/c", R"("error":"","metrics":{"n":2},"number":2,"status":"pending_validation")") +
          "," + json("/c", R"("error":"","metrics":{"n":3},"number":3,"status":"validated")") +
          "," + json("/c", R"("error":"why","metrics":{"n":4},"number":4,"status":"failed")") +
          "," + json("/c", R"("error":"why","metrics":{"n":5},"number":5,"status":"timeout")") +
          "]\n0 {\"note\":\"best\"}\n1 {}\n2 {}\n4 {}\n3 {}\n");
}

TEST(WorkerProgram, ReducesOverAllRanks) {
  Welcome w = alone();
  w.ranks.world_size = w.ranks.local_world_size = 2;
  w.ranks.rank = w.ranks.local_rank = 1;
  FakeSupervisor supervisor(w);
  auto running = std::async(std::launch::async, [&] {
    return run(supervisor.folder(), {WORKER, "reduces"}, under(supervisor));
  });
  std::string first;  // rank 0's value
  append_report(0, false, {{"n", std::int64_t{4}}, {"x", 0.25}}, first);
  std::string one;
  append_report(0, false, {{"n", std::int64_t{1}}}, one);
  for (std::size_t call = 0; call < 6; ++call) {
    const auto join = supervisor.wait_for<CollectiveJoin>(call);
    EXPECT_EQ(join.name, "reduce");
    supervisor.send(CollectiveResult{
        .sequence = join.sequence, .parts = {call == 4 ? one : first, join.data}, .error = ""});
  }
  const auto join = supervisor.wait_for<CollectiveJoin>(6);
  EXPECT_EQ(join.data, "");  // only rank 0 sends its value
  supervisor.send(
      CollectiveResult{.sequence = join.sequence, .parts = {R"("of rank 0")", ""}, .error = ""});
  const auto gather = supervisor.wait_for<CollectiveJoin>(7);
  EXPECT_EQ(gather.name, "all_gather");
  EXPECT_EQ(gather.data, R"([1,"x"])");
  supervisor.send(CollectiveResult{
      .sequence = gather.sequence, .parts = {R"({"rank":0})", gather.data}, .error = ""});

  EXPECT_EQ(running.get().out,
            "{\"n\":3.5,\"x\":0.875}\n"
            "{\"n\":7,\"x\":1.75}\n"
            "{\"n\":3,\"x\":0.25}\n"
            "{\"n\":4,\"x\":1.5}\n"
            "{\"n\":9223372036854775808.0}\n"
            "reduce: rank 0 and rank 1 give different metrics, first at 'x' (all ranks give the "
            "same names)\n"
            "reduce: 'x' is not a number\n"
            "\"of rank 0\"\n"
            "[{\"rank\":0},[1,\"x\"]]\n");
}

TEST(WorkerProgram, FindsWhatTheRunBeforeItLeft) {
  Folder folder;
  EXPECT_EQ(run(folder.path, {WORKER, "resumes"}).out, "from epoch 0, of 0 ranks\n");
  leave_checkpoint(folder.path);

  const Ended alone = run(folder.path, {WORKER, "resumes"});
  const Ended one_of_two =
      run(folder.path, {WORKER, "resumes"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}});

  const std::string found =
      "checkpoints/checkpoint_000001 {\"note\":\"best\"} {\"epoch\":4}\n"
      "through C {\"epoch\":4}\n";
  EXPECT_THAT(alone.out, testing::HasSubstr("from epoch 5, of 1 ranks\n" + found));
  EXPECT_THAT(alone.out,
              testing::HasSubstr("checkpoint 'checkpoints/checkpoint_000001' has no state.json: "
                                 "it was not made by Checkpoint::from_json"));
  EXPECT_THAT(one_of_two.out,
              testing::HasSubstr("from epoch 5, of 1 ranks\nresized 1 to 2\n" + found));
}

TEST(WorkerProgram, NamesTheCheckpointThatItCannotResumeFrom) {
  Welcome w = alone();
  w.run.restore_dir = "/none/checkpoint_000001";
  FakeSupervisor supervisor(w);

  const Ended ended = run(supervisor.folder(), {WORKER, "resumes"}, under(supervisor));

  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(supervisor.wait_for<WorkerError>().error.what,
            "opening '/none/checkpoint_000001/.manifest.json': No such file or directory");
}

TEST(WorkerProgram, ValidatesACheckpointInPlaceOfItsLoop) {
  Folder folder;

  const Ended ended = run(folder.path, {WORKER, "validates"}, validating(folder, R"({"lr":0.5})"));

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "report 1: rows=3\nvit (id-7)\n");
  EXPECT_EQ(text_of(folder.path / "result.json"),
            R"({"best": Infinity, "by": "a \"script\"", "other": NaN, "val.acc": 0.5, )"
            "\"worst\": -Infinity}\n");
  EXPECT_FALSE(fs::exists(folder.path / "checkpoints/checkpoint_000002"));
}

TEST(WorkerProgram, AValidationThatThrowsLeavesItsErrorAndNoResult) {
  Folder folder;

  const Ended ended =
      run(folder.path, {WORKER, "validates"}, validating(folder, R"({"throws":true})"));

  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(text_of(folder.path / "error.json").find(R"("message":"row 7 of 5")"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(folder.path / "result.json"));
}

TEST(WorkerProgram, AResultThatCannotBeWrittenIsAFailedValidation) {
  Folder folder;
  auto environment = validating(folder, R"({"lr":0.5})");
  environment["TRAINRUN_RESULT_FILE"] = "/none/result.json";
  EXPECT_THAT(run(folder.path, {WORKER, "validates"}, environment).out,
              testing::HasSubstr("train::Failure: cannot write '/none/result.json'\n"));
  environment.erase("TRAINRUN_RESULT_FILE");
  environment.erase("TORCHELASTIC_ERROR_FILE");
  const Ended ended = run(folder.path, {WORKER, "validates"}, environment);
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, testing::HasSubstr("train::Failure: this process was not started to "
                                            "validate a checkpoint\n"));
}

TEST(WorkerProgram, ValidatesNoCheckpointThatIsNotNamed) {
  Folder folder;
  auto environment = validating(folder, "{}");
  environment.erase("TRAINRUN_CHECKPOINT_DIR");

  const Ended ended = run(folder.path, {WORKER, "validates"}, environment);

  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out, testing::HasSubstr("trainrun: the validation failed: train::Failure: "
                                            "TRAINRUN_CHECKPOINT_DIR is not set\n"));
}

TEST(WorkerProgram, OneThatValidatesNothingSaysSo) {
  Folder folder;

  const Ended ended = run(folder.path, {WORKER, "silent"}, validating(folder, "{}"));

  EXPECT_EQ(ended.code, 1);
  EXPECT_NE(ended.out.find("has registered no function for that"), std::string::npos) << ended.out;
}

Welcome ingesting() {
  Welcome w = alone();
  w.ingest = {.name = "ingest-train-0002-3", .dataset = "train", .socket = "/s/2"};
  return w;
}

std::map<std::string, std::string> ingest_under(const FakeSupervisor& supervisor) {
  return {{"TRAINRUN_SOCKET", supervisor.socket()},
          {"TRAINRUN_ATTEMPT", "0"},
          {"TRAINRUN_INGEST", "ingest-train-0002-3"},
          {"TRAINRUN_WAIT_FOR_DEBUGGER", "all"}};
}

TEST(IngestProgram, ServesInPlaceOfItsLoopUntilItIsTold) {
  FakeSupervisor supervisor(ingesting());
  auto running = std::async(std::launch::async, [&] {
    return run(supervisor.folder(), {WORKER, "serves"}, ingest_under(supervisor));
  });

  EXPECT_EQ(supervisor.wait_for<WorkerHello>().ingest, "ingest-train-0002-3");
  supervisor.wait_for<IngestUp>();
  supervisor.wait_for<IngestLoad>(3);
  supervisor.send(StopIngest{"train", 2});
  const Ended ended = running.get();

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "serves train at /s/2 as ingest-train-0002-3\n");
  EXPECT_EQ(supervisor.frame_names().back(), "WorkerGoodbye");
  EXPECT_EQ(supervisor.count(MessageType::ReportBatch), 0u);
}

TEST(IngestProgram, SaysWhyItCannotServe) {
  FakeSupervisor supervisor(ingesting());
  const Ended ended = run(supervisor.folder(), {WORKER, "silent"}, ingest_under(supervisor));

  EXPECT_EQ(ended.code, 1);
  EXPECT_EQ(ended.out,
            "trainrun: ingest-train-0002-3: the program reads no datasets with "
            "get_dataset_shard(), so it cannot serve 'train' (remove its ingest_workers from the "
            "spec)\n");
}

TEST(IngestProgram, SaysWhatItsServerThrew) {
  FakeSupervisor supervisor(ingesting());
  const Ended ended =
      run(supervisor.folder(), {WORKER, "serves_wrongly"}, ingest_under(supervisor));

  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.out,
              testing::HasSubstr("trainrun: ingest-train-0002-3: std::out_of_range: row 7 of 5\n"));
}

}  // namespace
}  // namespace train
