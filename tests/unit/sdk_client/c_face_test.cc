// The C interface, from C and from Python.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <future>
#include <map>

#include "lib/wire/reports.h"
#include "tests/unit/sdk_client/programs.h"

namespace train {
namespace {

TEST(CFace, WhateverItsFunctionsThrowIsAnErrorOfTheCall) {
  Folder folder;

  const Ended ended = run(folder.path, {WORKER, "c"});

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out,
            "1 internal: something other than a std::exception was thrown\n"
            "1 internal: row 7 of 5\n");
}

TEST(CFace, MarksPhasesInTurn) {
  Folder folder;
  EXPECT_EQ(run(folder.path, {WORKER, "phases"}).out, R"(this thread has begun no phase
this thread has begun no phase
limit_ms is negative
name is NULL
0
text is NULL
0
0
this thread has begun no phase
)");
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
0
1 invalid_argument: set_result: the value is nested 32 levels deep, at most 31 are allowed (put such data into a file, and its path here)
0
1 invalid_argument: histogram 'fc1': 257 bins, 1 to 256 are allowed
1 invalid_argument: histogram: its name is empty
1 invalid_argument: histogram ')" +
                           std::string(253, 'x') +
                           R"(...': its name has 300 bytes, at most 256 are allowed
1 invalid_argument: values is NULL
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
result: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
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

/// The functions, called from Python.
class CFaceFromPython : public ::testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    GTEST_SKIP() << "the system's python3 cannot load a library that needs a sanitizer's runtime";
#endif
  }
  Folder folder;
};

TEST_F(CFaceFromPython, Works) {
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

TEST(CFace, TakesMetricsThatJsonCannotSay) {
  Folder folder;

  const Ended ended = run(folder.path, {WORKER, "c_nan"});

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out,
            "report 1: high=inf loss=nan low=-inf\n"
            "report 2: loss=nan val.loss=nan\n"
            "checkpoint of report 2: checkpoints/checkpoint_000001\n"
            "{\"loss\":null}\n");
}

TEST_F(CFaceFromPython, Validates) {
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

TEST_F(CFaceFromPython, MakesHistograms) {
  FakeSupervisor supervisor(alone());
  std::ofstream(fs::path(supervisor.folder()) / "worker.py") << R"(
import ctypes, math, sys
lib = ctypes.CDLL(sys.argv[1])
lib.trainrun_histogram.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
values = (ctypes.c_double * 5)(0, 1, 1, 2, math.nan)
assert lib.trainrun_histogram(b"fc1", values, 5, 2) == 0
assert lib.trainrun_report(b'{"n": 1}') == 0
lib.trainrun_finish(None)
)";
  const Ended ended =
      run(supervisor.folder(), {"python3", "-u", "worker.py", LIBTRAINRUN}, under(supervisor));

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(supervisor.wait_for_reports(1).at(0).histograms,
            (Histograms{{"fc1", {.min = 0, .max = 2, .counts = {1, 3}, .nans = 1}}}));
}

TEST_F(CFaceFromPython, TakesFunctions) {
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
  supervisor.send(PauseWorkers{.step = "checkpoint", .report_seq = report_seq, .reason = ""});
  EXPECT_EQ(supervisor.wait_for<CheckpointStaged>().report_seq, report_seq);
  supervisor.send(PauseWorkers{.step = "finish", .report_seq = 0, .reason = "enough"});

  const Ended ended = running.get();

  EXPECT_EQ(ended.code, 0);
  EXPECT_EQ(ended.out, "no disk\n2\n");
}

}  // namespace
}  // namespace train
