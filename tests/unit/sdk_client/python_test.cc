// The Python package, under a supervisor that the test plays or by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <map>

#include "lib/wire/reports.h"
#include "tests/unit/sdk_client/programs.h"

namespace train {
namespace {

class PythonPackage : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the system's python3 cannot load a library that needs a sanitizer's runtime";
#endif
  }
  /// Run a program with the package in `folder`.
  static Ended python(const fs::path& folder, const std::string& text,
                      std::map<std::string, std::string> env = {}) {
    std::ofstream(folder / "worker.py") << text;
    env.insert({{"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"},
                {"PYTHONDONTWRITEBYTECODE", "1"},
                {"TRAINRUN_LIBRARY", LIBTRAINRUN}});
    return run(folder, {"python3", "-u", "worker.py"}, env);
  }
  Folder folder;
};

TEST_F(PythonPackage, LightningGetsAsManyWorkersOnEachNodeOrIsRefused) {
  const Ended ended = python(folder.path, R"(
import sys, types
fake = types.ModuleType("lightning.pytorch.callbacks")  # in place of the real one, which need not be installed
fake.Checkpoint = object
for name in ("lightning", "lightning.pytorch", fake.__name__):
    sys.modules[name] = fake
import trainrun.lightning

class Place:
    def __init__(self, local, nodes, ranks):
        self.get_local_world_size, self.get_node_count, self.get_world_size = lambda: local, lambda: nodes, lambda: ranks

for numbers in ((2, 3, 6), (1, 2, 3)):
    trainrun.get_context = lambda: Place(*numbers)
    try:
        print(trainrun.lightning.trainer_args(), flush=True)
    except trainrun.Failure as error:
        print(error.kind, error, flush=True)
)");
  EXPECT_EQ(ended.code, 0) << ended.out;
  EXPECT_EQ(
      ended.out,
      "{'devices': 2, 'num_nodes': 3}\n"
      "invalid_argument Lightning needs as many workers on each node: this one has 1 of 3, and "
      "there are 2 nodes (set scaling_config.workers_per_node, or num_workers to a multiple)\n");
}

TEST_F(PythonPackage, Works) {
  const Ended ended = python(folder.path, R"(
import os, trainrun
context = trainrun.get_context()
assert context.get_world_size() == 1 and not context.is_supervised()
try:
    trainrun.report([1])
except trainrun.Failure as failure:
    print(failure.kind, failure, flush=True)
trainrun.report({"loss": 0.5})
trainrun.barrier()
assert not trainrun.should_stop() and trainrun.wait_for_checkpoint() is None
made = trainrun.Checkpoint.from_value({"step": 1})
trainrun.report({"loss": 0.25}, made, upload="sync")
print("stored", flush=True)
trainrun.report({"loss": 0.125}, made)
print("kept", trainrun.wait_for_checkpoint(), flush=True)
os.makedirs("mine")
open("mine/state", "w").write("weights")
inode = os.stat("mine/state").st_ino
trainrun.report({"loss": 0.0625}, trainrun.Checkpoint.from_directory("mine"), upload="none")
kept = trainrun.wait_for_checkpoint()
assert not os.path.exists("mine") and os.stat(kept + "/state").st_ino == inode
print(trainrun.reduce({"n": 3}, "sum"), flush=True)
trainrun.set_result({"ok": True})
)");
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(
      ended.out,
      "invalid_argument metrics_json is not a JSON object\nreport 1: loss=0.5\n"
      "report 2: loss=0.25\ncheckpoint of report 2: checkpoints/checkpoint_000001\nstored\n"
      "report 3: loss=0.125\ncheckpoint of report 3: checkpoints/checkpoint_000002\n"
      "kept checkpoints/checkpoint_000002\nreport 4: loss=0.0625\n"
      "checkpoint of report 4: checkpoints/checkpoint_000003\n{'n': 3}\nresult: {\"ok\":true}\n");
}

// A thread of PyTorch's Gloo that still works when the program ends may need the interpreter.
TEST_F(PythonPackage, GloosThreadsRestBeforeTheInterpreterEnds) {
  const Ended ended = python(folder.path, R"(
import ctypes, hashlib, os, sys, threading, types
sys.modules["torch.distributed"] = types.ModuleType("torch.distributed")  # in place of the real one
import trainrun
trainrun.get_context().get_world_size()
began = threading.Event()

def work():
    ctypes.CDLL(None).prctl(15, b"pt_gloo_runloop", 0, 0, 0)  # PR_SET_NAME
    began.set()
    hashlib.pbkdf2_hmac("sha256", b"", b"", 100_000)  # without the interpreter
    os.write(1, b"rests\n")
    threading.Event().wait()

threading.Thread(target=work, daemon=True).start()
began.wait()
)");
  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "rests\n");
}

TEST_F(PythonPackage, Validates) {
  const std::string worker = R"(
import trainrun
if trainrun.validating():
    trainrun.report_validation({"epoch": trainrun.get_checkpoint().to_value()["epoch"]})
else:
    try:
        trainrun.report_validation({})
    except trainrun.Failure as failure:
        assert failure.kind == "unavailable"
    print([(c.number, c.status) for c in trainrun.get_all_reported_checkpoints(validated=True)])
)";
  EXPECT_EQ(python(folder.path, worker, validating(folder, "{}")).code, 0);
  EXPECT_EQ(text_of(folder.path / "result.json"), "{\"epoch\": 0}\n");
  const Ended trained = python(folder.path, worker);
  EXPECT_EQ(trained.code, 0);
  EXPECT_EQ(trained.out, "[(1, 'committed')]\n");
}

TEST_F(PythonPackage, MakesHistograms) {
  FakeSupervisor supervisor(alone());
  const Ended ended = python(supervisor.folder(), R"(
import math, trainrun
trainrun.histogram("fc1", [0, 1, 1, 2, math.nan], bins=2)
trainrun.report({"n": 1})
)",
                             under(supervisor));

  EXPECT_EQ(ended.code, 0) << ended.out;
  EXPECT_EQ(supervisor.wait_for_reports(1).at(0).histograms,
            (Histograms{{"fc1", {.min = 0, .max = 2, .counts = {1, 3}, .nans = 1}}}));
}

TEST_F(PythonPackage, TakesFunctionsAndStopsWithoutAnException) {
  FakeSupervisor supervisor(alone());
  auto running = std::async(std::launch::async, [&] {
    return python(supervisor.folder(), R"(
import trainrun
def fails():
    raise OSError("no disk")
trainrun.once_per_node("works", lambda: None)
try:
    trainrun.once_per_node("fails", fails)
except OSError as error:
    print(error, flush=True)
trainrun.on_stop(lambda: trainrun.Checkpoint.from_value({"step": 7}))
while True:
    try:
        trainrun.report({"n": 1})
    except Exception:
        print("swallowed", flush=True)
        break
)",
                  under(supervisor));
  });
  for (const std::size_t call : {0u, 1u}) {
    const auto begin = supervisor.wait_for<OnceBegin>(call);
    supervisor.send(OnceReply{.name = begin.name, .verdict = "run", .error = ""});
  }
  EXPECT_EQ(supervisor.wait_for<OnceEnd>(0).error, "");
  EXPECT_EQ(supervisor.wait_for<OnceEnd>(1).error, "OSError: no disk");
  supervisor.send(PauseWorkers{.step = "pause", .report_seq = 0, .reason = ""});
  const std::uint64_t report_seq = supervisor.wait_for<WorkerPaused>(0).report_seq;
  supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = report_seq, .reason = ""});
  EXPECT_EQ(supervisor.wait_for<CheckpointStaged>().report_seq, report_seq);
  supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "enough"});

  const Ended ended = running.get();

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "no disk\n");
}

TEST_F(PythonPackage, HandsOverTheExceptionThatEndsIt) {
  FakeSupervisor supervisor(alone());
  const Ended ended = python(supervisor.folder(), R"(import trainrun
trainrun.report({"n": 1})
raise LookupError("row 7 of 5")
)",
                             under(supervisor));

  EXPECT_EQ(ended.code, 1);
  const UserError error = supervisor.wait_for<WorkerError>().error;
  EXPECT_EQ(error.what, "row 7 of 5");
  EXPECT_EQ(error.type, "LookupError");
  EXPECT_THAT(error.stack, testing::StartsWith("Traceback (most recent call last):\n"));
  EXPECT_THAT(error.stack, testing::HasSubstr("worker.py\", line 3, in <module>\n"));
  EXPECT_THAT(error.stack, testing::EndsWith("LookupError: row 7 of 5\n"));
}

TEST_F(PythonPackage, RefusesTheChildOfAFork) {
  const Ended ended = python(folder.path, R"(
import os, trainrun
trainrun.report({"n": 1})
child = os.fork()
if child == 0:
    try:
        trainrun.report({"n": 2})
    except trainrun.Failure as failure:
        print(failure.kind, failure, flush=True)
    raise ValueError("of the child")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
)");
  EXPECT_EQ(ended.code, 0);
  EXPECT_THAT(ended.out, testing::StartsWith(
                             "report 1: n=1\nunavailable a child of a fork cannot use trainrun: "
                             "call it in the process that was the worker at first\n"));
  EXPECT_THAT(ended.out, testing::EndsWith("ValueError: of the child\n1\n"));
}

TEST_F(PythonPackage, SaysWhichLibraryIsMissingOrOld) {
  const std::string worker = R"(
import trainrun
try:
    trainrun.barrier()
except trainrun.Failure as failure:
    print(failure.kind, failure)
)";
  EXPECT_EQ(python(folder.path, worker, {{"TRAINRUN_LIBRARY", "/none.so"}}).out,
            "unavailable /none.so cannot be loaded: /none.so: cannot open shared object file: No "
            "such file or directory (install trainrun, or set TRAINRUN_LIBRARY)\n");
  EXPECT_EQ(python(folder.path, worker, {{"TRAINRUN_LIBRARY", "libc.so.6"}}).out,
            "unavailable libc.so.6 is of another version of trainrun: it has no trainrun_start\n");
}

TEST_F(PythonPackage, RefusesWhatItCannotHandOver) {
  EXPECT_EQ(python(folder.path, R"(
import trainrun
for call in (lambda: trainrun.report({"x": object()}), lambda: trainrun.report({}, upload="later"),
             lambda: trainrun.barrier(-1), lambda: trainrun.barrier(float("nan")),
             lambda: trainrun.reduce({"n": 1}, "median"), lambda: trainrun.Checkpoint.from_directory("none")):
    try:
        call()
    except trainrun.Failure as failure:
        print(failure.kind, failure)
loop = {}
loop["loop"] = loop
try:
    trainrun.set_result(loop)
except trainrun.Failure as failure:
    print(failure.kind)
)")
                .out,
            "invalid_argument a value of type object cannot be written as JSON\n"
            "invalid_argument report: unknown upload 'later' (known: async, sync, none)\n"
            "invalid_argument the timeout is -1 s, at least 0 is needed\n"
            "invalid_argument the timeout is nan s, at least 0 is needed\n"
            "invalid_argument reduce: unknown 'median' (known: mean, sum, min, max)\n"
            "not_found the checkpoint's folder 'none' is not a directory: No such file or "
            "directory\n"
            "invalid_argument\n");
}

}  // namespace
}  // namespace train
