// The C interface.
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
[{"b":2}]
1 invalid_argument: value_json is NULL
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

}  // namespace
}  // namespace train
