// Complete user programs: how they end under a supervisor, what they do without one, and the C
// interface from Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <map>

#include "lib/wire/reports.h"
#include "sdk/client/solo_session.h"
#include "tests/unit/sdk_client/fake_supervisor.h"

namespace train {
namespace {

namespace fs = std::filesystem;

struct Ended {
  int code = -1;    // exit code, or 128 + signal
  std::string out;  // stdout and stderr
};

struct Folder {
  Folder() {
    char name[] = "/tmp/sdk-test-XXXXXX";
    path = ::mkdtemp(name);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

Ended run(const fs::path& folder, const std::vector<std::string>& command,
          const std::map<std::string, std::string>& env = {}) {
  const fs::path output = folder / ".output";
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
    if (::chdir(folder.c_str()) != 0 || !::freopen(output.c_str(), "w", stdout)) ::_exit(126);
    ::dup2(STDOUT_FILENO, STDERR_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  std::ifstream file(output);
  return {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
          .out = std::string(std::istreambuf_iterator<char>(file), {})};
}

/// Leave a checkpoint of a writer's files in `folder`, which may not be the working directory.
void leave_checkpoint(const fs::path& folder) {
  sdk::SoloSession solo({}, (folder / "checkpoints").string());
  Checkpoint checkpoint = Checkpoint::from_writer(
      [](const fs::path& made) { std::ofstream(made / "weights") << "weights"; });
  checkpoint.set_metadata({{"note", "best"}});
  solo.report({{"epoch", 4}}, &checkpoint);
  solo.finish();
}

Welcome alone() {
  Welcome w;
  w.ranks.world_size = w.ranks.local_world_size = w.ranks.node_count = 1;
  return w;
}

std::map<std::string, std::string> under(const FakeSupervisor& supervisor) {
  return {{"TRAINRUN_SOCKET", supervisor.socket()},
          {"RANK", "0"},
          {"WORLD_SIZE", "1"},
          {"TRAINRUN_ATTEMPT", "0"}};
}

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
                                    "#1 main .sdk_client_worker.0x[0-9a-f]+.\n"));
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
  // The stack of abort() would say less than that of the throw, which train-run shows.
  EXPECT_THAT(ended.out, testing::HasSubstr("trainrun: rank 0 was hit by SIGABRT\n"));
#endif
}

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

  EXPECT_EQ(running.get().out,
            "{\"n\":3.5,\"x\":0.875}\n"
            "{\"n\":7,\"x\":1.75}\n"
            "{\"n\":3,\"x\":0.25}\n"
            "{\"n\":4,\"x\":1.5}\n"
            "{\"n\":9223372036854775808.0}\n"
            "reduce: rank 0 and rank 1 give different metrics, first at 'x' (all ranks give the "
            "same names)\n"
            "reduce: 'x' is not a number\n"
            "\"of rank 0\"\n");
}

TEST(WorkerProgram, FindsWhatTheRunBeforeItLeft) {
  Folder folder;
  EXPECT_EQ(run(folder.path, {WORKER, "resumes"}).out, "from epoch 0, of 0 ranks\n");
  leave_checkpoint(folder.path);

  const Ended alone = run(folder.path, {WORKER, "resumes"});
  const Ended one_of_two =
      run(folder.path, {WORKER, "resumes"}, {{"RANK", "1"}, {"WORLD_SIZE", "2"}});

  const std::string found = "checkpoints/checkpoint_000001 {\"note\":\"best\"} {\"epoch\":4}\n";
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

/// Make a checkpoint of epoch 0. Return the environment of a process that validates it.
std::map<std::string, std::string> validating(const Folder& folder, const std::string& config) {
  EXPECT_EQ(run(folder.path, {WORKER, "trains"}).code, 0);
  std::ofstream(folder.path / "spec.json") << R"({"train_loop_config":)" << config << "}";
  return {{"TRAINRUN_VALIDATE", "1"},
          {"TRAINRUN_CHECKPOINT_DIR", folder.path / "checkpoints/checkpoint_000001"},
          {"TRAINRUN_RESULT_FILE", folder.path / "result.json"},
          {"TORCHELASTIC_ERROR_FILE", folder.path / "error.json"},
          {"TRAINRUN_SPEC", folder.path / "spec.json"},
          {"TRAINRUN_RUN_NAME", "vit"},
          {"TRAINRUN_RUN_ID", "id-7"}};
}
std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
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

TEST(CFace, WhateverItsFunctionsThrowIsAnErrorOfTheCall) {
  Folder folder;

  const Ended ended = run(folder.path, {WORKER, "c"});

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out,
            "1 internal: something other than a std::exception was thrown\n"
            "1 internal: row 7 of 5\n");
}

TEST(CFace, GivesWhatItIsAskedForAndSaysWhatItRefuses) {
  Folder folder;
  fs::create_directory(folder.path / "mine");

  const Ended ended = run(folder.path, {WORKER, "uses_c"});

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, R"(1 invalid_argument: metrics_json is NULL
1 invalid_argument: JSON, byte 1: a key in double quotes is wanted here
1 invalid_argument: checkpoint is NULL
1 invalid_argument: reduce: unknown 'median' (known: mean, sum, min, max)
1 invalid_argument: how is NULL
1 invalid_argument: f is NULL
1 invalid_argument: name is NULL
1 unavailable: the function returned 3
1 unavailable: no route
1 not_found: the checkpoint's folder 'none' is not a directory: No such file or directory
1 invalid_argument: metadata_json is not a JSON object
NULL
0
{"note":"best"}
report 1: epoch=2
checkpoint of report 1: checkpoints/checkpoint_000001
0
report 2: epoch=3
checkpoint of report 2: checkpoints/checkpoint_000002
report 3: epoch=3
checkpoint of report 3: checkpoints/checkpoint_000003
checkpoints/checkpoint_000003
0
{"a":[1]}
0
{"n":1.0}
0
{"n":1}
0
{"n":1}
0
{"n":1}
)");
  const auto metadata = [&](std::uint64_t number) {
    PosixFileSystem files;
    const CheckpointStore store(files, (folder.path / "checkpoints").string());
    return store.find(CheckpointNumber{number})->manifest->metadata;
  };
  EXPECT_EQ(metadata(1), (boost::json::object{{"note", "best"}}));
  EXPECT_EQ(metadata(2), (boost::json::object{{"note", "third"}}));
  EXPECT_EQ(metadata(3), boost::json::object{});
}

TEST(CFace, WorksFromPython) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the system's python3 cannot load a library that needs a sanitizer's runtime";
#endif
  Folder folder;
  std::ofstream(folder.path / "worker.py") << R"(
import ctypes, json, os, sys
lib = ctypes.CDLL(sys.argv[1])
for name in ("last_error", "last_error_kind", "config_json", "checkpoint_directory", "checkpoint_metrics_json"):
    getattr(lib, "trainrun_" + name).restype = ctypes.c_char_p
lib.trainrun_barrier.argtypes = [ctypes.c_int64]
assert lib.trainrun_world_size() == 1 and lib.trainrun_supervised() == 0
assert lib.trainrun_report(b'[1]') == 1
print(lib.trainrun_last_error_kind().decode(), lib.trainrun_last_error().decode())
assert lib.trainrun_report(json.dumps({"loss": 0.5}).encode()) == 0
assert lib.trainrun_barrier(-1) == 0 and lib.trainrun_should_stop() == 0
out = ctypes.c_char_p()
assert lib.trainrun_wait_for_checkpoint(ctypes.byref(out)) == 0 and out.value is None
lib.trainrun_checkpoint_from_json.restype = ctypes.c_void_p
made = ctypes.c_void_p(lib.trainrun_checkpoint_from_json(b'{"step": 1}'))
assert lib.trainrun_report_checkpoint_sync(b'{"loss": 0.25}', made) == 0
print("stored", flush=True)
assert lib.trainrun_report_checkpoint(b'{"loss": 0.125}', made) == 0
assert lib.trainrun_wait_for_checkpoint(ctypes.byref(out)) == 0
print("kept", out.value.decode())
os.makedirs("mine")
open("mine/state", "w").write("weights")
lib.trainrun_checkpoint_from_directory.restype = ctypes.c_void_p
mine = ctypes.c_void_p(lib.trainrun_checkpoint_from_directory(b"mine"))
inode = os.stat("mine/state").st_ino
assert lib.trainrun_report_checkpoint_no_upload(b'{"loss": 0.0625}', mine) == 0
assert lib.trainrun_wait_for_checkpoint(ctypes.byref(out)) == 0 and not os.path.exists("mine")
assert os.stat(out.value.decode() + "/state").st_ino == inode
assert lib.trainrun_reduce(b'{"n": 3}', b"sum", ctypes.byref(out)) == 0
print(out.value.decode(), flush=True)
assert lib.trainrun_set_result(b'{"ok": true}') == 0
assert lib.trainrun_finish(None) == 0
)";
  const Ended ended = run(folder.path, {"python3", "-u", "worker.py", LIBTRAINRUN});
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(
      ended.out,
      "invalid_argument metrics_json is not a JSON object\nreport 1: loss=0.5\n"
      "report 2: loss=0.25\ncheckpoint of report 2: checkpoints/checkpoint_000001\nstored\n"
      "report 3: loss=0.125\ncheckpoint of report 3: checkpoints/checkpoint_000002\n"
      "kept checkpoints/checkpoint_000002\nreport 4: loss=0.0625\n"
      "checkpoint of report 4: checkpoints/checkpoint_000003\n{\"n\":3}\nresult: {\"ok\":true}\n");
}

TEST(CFace, ValidatesFromPython) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the system's python3 cannot load a library that needs a sanitizer's runtime";
#endif
  Folder folder;
  std::ofstream(folder.path / "worker.py") << R"(
import ctypes, json, sys
lib = ctypes.CDLL(sys.argv[1])
lib.trainrun_checkpoint_value_json.restype = ctypes.c_char_p
lib.trainrun_last_error_kind.restype = ctypes.c_char_p
lib.trainrun_reported_checkpoints.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_void_p]
made, out = ctypes.c_void_p(), ctypes.c_char_p()
if lib.trainrun_validating():
    assert lib.trainrun_get_checkpoint(ctypes.byref(made)) == 0
    value = json.loads(lib.trainrun_checkpoint_value_json(made))
    assert lib.trainrun_validation_result(json.dumps({"epoch": value["epoch"]}).encode()) == 0
else:
    assert lib.trainrun_validation_result(b"{}") == 1
    assert lib.trainrun_last_error_kind() == b"unavailable"
    assert lib.trainrun_reported_checkpoints(1, -1, ctypes.byref(out)) == 0
    print([(c["number"], c["status"]) for c in json.loads(out.value)])
)";
  const std::vector<std::string> command{"python3", "-u", "worker.py", LIBTRAINRUN};

  EXPECT_EQ(run(folder.path, command, validating(folder, "{}")).code, 0);
  EXPECT_EQ(text_of(folder.path / "result.json"), "{\"epoch\": 0}\n");
  const Ended trained = run(folder.path, command);
  EXPECT_EQ(trained.code, 0);
  EXPECT_EQ(trained.out, "[(1, 'committed')]\n");
}

TEST(CFace, TakesFunctionsFromPython) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the system's python3 cannot load a library that needs a sanitizer's runtime";
#endif
  FakeSupervisor supervisor(alone());
  std::ofstream(fs::path(supervisor.folder()) / "worker.py") << R"(
import ctypes, sys
lib = ctypes.CDLL(sys.argv[1])
lib.trainrun_last_error.restype = ctypes.c_char_p
lib.trainrun_checkpoint_from_json.restype = ctypes.c_void_p

@ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_char), ctypes.c_size_t)
def prepare(user, error, size):
    text = b"no disk\0"
    ctypes.memmove(error, text, min(len(text), size))
    return user or 0
@ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
def last(user):
    return lib.trainrun_checkpoint_from_json(b'{"step": 7}')

assert lib.trainrun_once_per_node(b"works", prepare, None) == 0
assert lib.trainrun_once_per_node(b"fails", prepare, ctypes.c_void_p(5)) == 1
print(lib.trainrun_last_error().decode(), flush=True)
assert lib.trainrun_on_stop(last, None) == 0
while (code := lib.trainrun_report(b'{"n": 1}')) == 0:
    pass
print(code, flush=True)
lib.trainrun_finish(None)
)";
  auto running = std::async(std::launch::async, [&] {
    return run(supervisor.folder(), {"python3", "-u", "worker.py", LIBTRAINRUN}, under(supervisor));
  });
  for (const std::size_t call : {0u, 1u}) {
    const auto begin = supervisor.wait_for<OnceBegin>(call);
    supervisor.send(OnceReply{.name = begin.name, .verdict = "run", .error = ""});
  }
  EXPECT_EQ(supervisor.wait_for<OnceEnd>(0).error, "");
  EXPECT_EQ(supervisor.wait_for<OnceEnd>(1).error, "no disk");
  supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  const std::uint64_t report_seq = supervisor.wait_for<WorkerPaused>(0).report_seq;
  supervisor.send(PauseWorkers{.step = "advance", .report_seq = report_seq, .reason = ""});
  EXPECT_EQ(supervisor.wait_for<CheckpointStaged>().report_seq, report_seq);
  supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "enough"});

  const Ended ended = running.get();

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "no disk\n2\n");
}

}  // namespace
}  // namespace train
