// The routes against a run's folder; tests/e2e checks their answers against openapi.yaml.
#include "launcher/dashboard/api.h"

#include <gmock/gmock.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <regex>
#include <set>

#include "launcher/dashboard/assets.h"
#include "lib/base/text_file.h"
#include "tests/unit/launcher_dashboard/dashboard_fixture.h"
#include "tests/unit/lib_samples/tables.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ApiTest : public RunFolderTest {
 protected:
  ApiTest() { write_run(); }

  HttpResponse get(const std::string& target, HttpMethod method = HttpMethod::Get) {
    return api_.answer({.method = method, .target = parse_target(target).value()});
  }
  HttpResponse of_run(const std::string& rest) { return get("/api/v1/runs/" + id_ + rest); }
  HttpResponse post(const std::string& rest, const std::string& body = "") {
    return api_.answer({.method = HttpMethod::Post,
                        .target = parse_target("/api/v1/runs/" + id_ + rest).value(),
                        .body = body});
  }
  /// Return the name of the file in the run's folder that begins so, or "".
  std::string name_beginning_with(const std::string& begin) const {
    for (const auto& entry : std::filesystem::directory_iterator(run_))
      if (entry.path().filename().string().starts_with(begin)) return entry.path().filename();
    return "";
  }
  boost::json::object json(const HttpResponse& response) {
    EXPECT_EQ(response.status, 200) << response.body;
    return boost::json::parse(response.body).as_object();
  }

  RunCatalog catalog_{{root_}};
  RunTasks tasks_;
  Api api_{catalog_, tasks_, {.version = "1", .actions = true, .address = "127.0.0.1:7080"}};
  const std::string id_ = run_id_of(run_);
};

TEST_F(ApiTest, EveryRouteIsInTheDescriptionAndTheOtherWayRound) {
  const std::string text(find_asset("openapi.yaml")->bytes);
  std::set<std::string> described;
  std::string path;
  const std::regex path_line("^  (/[^:]*):$"), method_line("^    (get|post):$");
  std::stringstream lines(text.substr(0, text.find("\ncomponents:")));
  for (std::string line; std::getline(lines, line);) {
    std::smatch found;
    if (std::regex_match(line, found, path_line)) path = found[1];
    if (std::regex_match(line, found, method_line))
      described.insert((found[1] == "get" ? "GET " : "POST ") + path);
  }
  std::set<std::string> served{"GET /api/v1/stream", "GET /healthz", "GET /readyz"};
  for (const std::string& route : Api::routes()) served.insert(route);

  EXPECT_EQ(described, served);
}

TEST_F(ApiTest, RunsAreListed) {
  const auto answer = json(get("/api/v1/runs?state=interrupted&q=JOB"));

  EXPECT_EQ(answer.at("total").as_int64(), 1);
  ASSERT_EQ(answer.at("runs").as_array().size(), 1U) << get("/api/v1/runs").body;
  EXPECT_EQ(answer.at("runs").as_array()[0].at("id").as_string(), id_);
  EXPECT_EQ(json(get("/api/v1/runs?state=finished")).at("matching").as_int64(), 0);
  EXPECT_EQ(get("/api/v1/runs?state=x").status, 400);
  EXPECT_EQ(get("/api/v1/runs?limit=0").status, 400);
}

TEST_F(ApiTest, WhatDoesNotExistIsNotFound) {
  EXPECT_EQ(get("/api/v1/runs/none~0").status, 404);
  EXPECT_EQ(get("/api/v1/nothing").status, 404);
  EXPECT_EQ(of_run("/attempts/7/ranks").status, 404);
  EXPECT_EQ(of_run("/attempts/0/ranks/2").status, 404);
  EXPECT_EQ(of_run("/attempts/0/ranks/x").status, 404);
  EXPECT_EQ(of_run("/tasks/1").status, 404);
  EXPECT_EQ(of_run("/files/spec.yaml").status, 404);
  EXPECT_EQ(of_run("/files/attempts/000/stacks/none.txt").status, 404);
  EXPECT_EQ(get("/api/v1/runs", HttpMethod::Post).status, 405);
}

TEST_F(ApiTest, MetricsAreInBuckets) {
  const auto answer = json(of_run("/metrics?key=loss&key=none"));

  EXPECT_EQ(answer.at("reports").as_int64(), 2);
  EXPECT_EQ(answer.at("to").as_int64(), 2);
  const auto& loss = answer.at("series").as_array()[0].as_object();
  EXPECT_EQ(boost::json::serialize(loss.at("report")), "[1,2]");
  EXPECT_EQ(boost::json::serialize(loss.at("max")), "[5E-1,null]");
  EXPECT_EQ(boost::json::serialize(loss.at("epoch")), "[null,1E0]");
  EXPECT_EQ(boost::json::serialize(loss.at("non_finite")), "[0,1]");
  EXPECT_EQ(boost::json::serialize(answer.at("series").as_array()[1].at("report")), "[]");
  EXPECT_EQ(of_run("/metrics").status, 400);
  EXPECT_EQ(of_run("/metrics?key=loss&points=1").status, 400);
  EXPECT_EQ(json(of_run("/metrics/keys?rank=1")).at("reports").as_int64(), 2);
}

TEST_F(ApiTest, RanksHaveARowEach) {
  write("attempts/000/ranks/0001/stdout.log", "12345");

  const auto answer = json(of_run("/attempts/latest/ranks"));

  const auto& rows = answer.at("ranks").as_array();
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].at("node").as_string(), "vm");
  EXPECT_EQ(rows[1].at("local_rank").as_int64(), 1);
  EXPECT_EQ(rows[1].at("reports").as_int64(), 2);
  EXPECT_EQ(rows[1].at("stdout_bytes").as_int64(), 5);
  EXPECT_TRUE(rows[1].at("rss_bytes").is_null());
  EXPECT_EQ(json(of_run("/attempts/0/ranks?after=1")).at("ranks").as_array().size(), 1U);
}

TEST_F(ApiTest, NodesSayWhyTheyAreNotUsed) {
  append("events.jsonl", record(R"({"event":"node_state","node":"vm","state":"quarantined",)"
                                R"("reason":"it failed 3 times"})"));
  append("events.jsonl",
         record(R"({"event":"node_state","node":"spare","state":"drained","reason":"SIGTERM"})"));

  const auto nodes = json(of_run("/nodes")).at("nodes").as_array();

  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].at("name").as_string(), "vm");
  EXPECT_EQ(nodes[0].at("state").as_string(), "quarantined");
  EXPECT_EQ(nodes[0].at("reason").as_string(), "it failed 3 times");
  EXPECT_EQ(nodes[0].at("state_since").as_string(), "2026-11-26T10:00:00.000000Z");
  EXPECT_EQ(nodes[1].at("name").as_string(), "spare");
  EXPECT_EQ(nodes[1].at("state").as_string(), "drained");
  EXPECT_TRUE(nodes[1].at("workers").is_null());
}

TEST_F(ApiTest, AnEnvironmentIsThatOfALivingWorkerOnly) {
  const auto over = json(of_run("/attempts/0/ranks/1/environment"));
  EXPECT_EQ(boost::json::serialize(over),
            R"({"rank":1,"variables":null,"why_not":"the attempt is over"})");

  const FileDescriptor held = lock();
  const auto unseen = json(of_run("/attempts/0/ranks/1/environment"));
  EXPECT_TRUE(unseen.at("variables").is_null());
  EXPECT_THAT(std::string(unseen.at("why_not").as_string()), HasSubstr("has not been seen yet"));
  EXPECT_EQ(of_run("/attempts/0/ranks/2/environment").status, 404);
}

TEST_F(ApiTest, StragglersAreListedAndMarkedWhileTheRunIsLive) {
  const FileDescriptor held = lock();
  append("events.jsonl",
         record(R"({"event":"straggler","attempt":0,"ranks":[1],"node":"vm","lasted_s":30,)"
                R"("phase":"step","behind":0.5,"odds":1e-5})"));

  const auto slow = json(of_run("")).at("stragglers").as_array();
  ASSERT_EQ(slow.size(), 1U);
  EXPECT_EQ(boost::json::serialize(slow[0]),
            R"({"rank":1,"node":"vm","behind_ratio":5E-1,"phase":"step",)"
            R"("since":"2026-11-26T09:59:30.000000Z"})");
  const auto ranks = json(of_run("/attempts/0/ranks")).at("ranks").as_array();
  EXPECT_TRUE(ranks[0].at("straggler").is_null());  // no sample of it has come
  EXPECT_TRUE(ranks[1].at("straggler").as_bool());
  EXPECT_EQ(ranks[1].at("behind_ratio").as_double(), 0.5);

  append("events.jsonl",
         record(R"({"event":"straggler_cleared","attempt":0,"ranks":[1],"node":"vm"})"));
  EXPECT_TRUE(json(of_run("")).at("stragglers").as_array().empty());
  EXPECT_TRUE(json(of_run("/attempts/0/ranks/1")).at("straggler").is_null());
}

TEST_F(ApiTest, NobodyIsAStragglerOnceNobodyJudges) {
  append("events.jsonl", record(R"({"event":"straggler","attempt":0,"ranks":[1],"behind":0.5})"));

  EXPECT_TRUE(json(of_run("")).at("stragglers").as_array().empty());
  EXPECT_TRUE(json(of_run("/attempts/0/ranks/1")).at("straggler").is_null());
}

TEST_F(ApiTest, GoodputIsOfTheRunAndOfEachAttempt) {
  append("events.jsonl", record(R"({"event":"attempt_ended","attempt":0,"failed":true,)"
                                R"("worker_seconds":{"step":6,"lost":2}})"));
  append("events.jsonl", record(R"({"event":"attempt_started","attempt":1,"world_size":2})"));
  write("attempts/001/goodput.json",
        R"({"worker_seconds":{"start":4},"run":{"worker_seconds":{"step":6,"lost":2,"start":4}}})");

  const auto answer = json(of_run("/goodput"));

  EXPECT_EQ(answer.at("goodput_ratio").as_double(), 0.5);
  EXPECT_EQ(boost::json::serialize(answer.at("total")), R"({"step":6E0,"start":4E0,"lost":2E0})");
  EXPECT_EQ(boost::json::serialize(answer.at("attempts")),
            R"([{"attempt":0,"seconds":{"step":6E0,"lost":2E0}},)"
            R"({"attempt":1,"seconds":{"start":4E0}}])");
  const auto attempts = json(of_run("/attempts")).at("attempts").as_array();
  EXPECT_EQ(boost::json::serialize(attempts[1].at("goodput")), R"({"start":4E0})");
  EXPECT_EQ(boost::json::serialize(json(of_run("")).at("goodput")),
            R"({"step":6E0,"start":4E0,"lost":2E0})");
}

TEST_F(ApiTest, NothingIsReadThroughAFolderThatBecameALink) {
  write("attempts/000/ranks/0000/stdout.log", "mine\n");
  write("attempts/000/output.times", "1800000000000000 0 1 0\n");
  write("../theirs/000/ranks/0000/stdout.log", "secret\n");
  write("../theirs/000/goodput.json", R"({"run":{"worker_seconds":{"step":1}}})");
  ASSERT_THAT(of_run("/logs").body, HasSubstr("mine"));

  replace_by_link("attempts", "../theirs");

  EXPECT_TRUE(json(of_run("/logs")).at("lines").as_array().empty());
  EXPECT_TRUE(json(of_run("/goodput")).at("total").is_null());
}

TEST_F(ApiTest, OlderPartsOfALogAreReadButThroughNoLink) {
  const std::string log = "attempts/000/ranks/0000/stdout.log";
  write(log, "[trainrun: continued from byte 7]\nnew\n");
  write(log + ".head", "secret\n");
  ASSERT_THAT(of_run("/logs").body, HasSubstr("secret"));

  write("../theirs", "secret\n");
  replace_by_link(log + ".head", root_ + "/theirs");

  EXPECT_THAT(of_run("/logs").body, HasSubstr("\"new\""));
  EXPECT_THAT(of_run("/logs").body, testing::Not(HasSubstr("secret")));
}

TEST_F(ApiTest, SamplesAreReadButThroughNoLink) {
  const FileDescriptor held = lock();
  const std::string line = line_of(ranks_at(1, {"0"}, "cpu", {2}));
  const auto cpu_of = [&](const std::string& rank) {
    return boost::json::serialize(json(of_run("/attempts/0/ranks/" + rank)).at("cpu_cores"));
  };
  for (const char* name : {"samples.jsonl", ".samples.now.jsonl"}) write(name, line);
  EXPECT_EQ(json(of_run("/samples")).at("t").as_array().size(), 1U);
  EXPECT_EQ(cpu_of("0"), "2E0");

  write("../theirs", line);
  for (const char* name : {"samples.jsonl", ".samples.now.jsonl"})
    replace_by_link(name, "../theirs");

  EXPECT_EQ(json(of_run("/samples")).at("t").as_array().size(), 0U);
  EXPECT_EQ(cpu_of("0"), "null");
}

TEST_F(ApiTest, OperatorsOfDatasetsAreThereWhileARunLastsAndLater) {
  write("spec.resolved.yaml",
        "command: [x]\ndatasets: {train: {format: items, items: [{x: 1}]}, val: {path: /v.csv}}\n");
  const std::string line =
      R"({"t":1800000000000,"span":1000,"attempt":0,"kind":"data","rows":["train/decode/all",)"
      R"("train/decode/0","train/decode/1","train/loop/all","train/loop/0","train/loop/1",)"
      R"("train/decode/all/x","other/loop/all"],"rows_total":10,"bytes_total":80,"rows_per_s":5,"bytes_per_s":40,)"
      R"("busy":[0.5,0.1,0.9,0.5,0.95,0.1,0,0],"input_wait":[0,0,0,0.5,0.05,0.9,0,0],"room_wait":0,)"
      R"("queue_bytes":0,"busy_s":9,"input_s":9,"worst_wait":[null,null,null,0.9,null,null,0,0]})"
      "\n";
  for (const char* name : {"samples.jsonl", ".samples.now.jsonl"}) write(name, line);

  for (const bool live : {true, false}) {
    std::optional<FileDescriptor> held;
    if (live) held.emplace(lock());
    const auto answer = json(of_run("/data"));
    EXPECT_EQ(answer.at("data_bound").at("text").as_string(),
              "data-bound 90 %: decode, 5.0 rows/s on rank 1");
    const auto& datasets = answer.at("datasets").as_array();
    ASSERT_EQ(datasets.size(), 2U);
    const auto& train = datasets[0].as_object();
    EXPECT_EQ(boost::json::serialize(train.at("starving_ranks")), "[1]");
    ASSERT_EQ(train.at("operators").as_array().size(), 2U);
    EXPECT_EQ(train.at("operators").at(0).at("name").as_string(), "decode");
    EXPECT_EQ(train.at("operators").at(0).at("busy_ratio").to_number<double>(), 0.5);
    EXPECT_TRUE(train.at("ranks").at(0).at("operator").is_null());
    EXPECT_EQ(train.at("ranks").at(1).at("operator").as_string(), "decode");
    EXPECT_TRUE(datasets[1].at("operators").is_null());
  }
  const auto over_time = json(of_run("/samples?dataset=train&fields=rows_per_s,worst_wait_ratio"));
  EXPECT_EQ(over_time.at("series").at("worst_wait_ratio").at(0).to_number<double>(), 0.9);
  const auto of_rank = json(of_run("/samples?dataset=train&operator=decode&rank=1"));
  EXPECT_EQ(of_rank.at("series").at("busy_ratio").at(0).to_number<double>(), 0.9);
  EXPECT_EQ(json(of_run("/samples?dataset=none")).at("t").as_array().size(), 0U);
}

TEST_F(ApiTest, LogsAreMergedAndFollowedByTheirCursor) {
  write("attempts/000/ranks/0000/stdout.log", "one\nthree\npart");
  write("attempts/000/ranks/0001/stderr.log", "two\x1b[31m!\n");
  write("attempts/000/output.times",
        "1800000000000000 0 1 0\n1800000000000010 1 2 0\n1800000000000020 0 1 4\n");
  const auto texts = [](const boost::json::object& answer) {
    std::vector<std::string> texts;
    for (const auto& line : answer.at("lines").as_array())
      texts.emplace_back(line.at("text").as_string());
    return texts;
  };

  const auto answer = json(of_run("/logs"));

  EXPECT_THAT(texts(answer), ElementsAre("one", "two!", "three"));
  EXPECT_EQ(answer.at("lines").as_array()[1].at("stream").as_string(), "err");
  const std::string after(answer.at("after").as_string());
  append("attempts/000/ranks/0000/stdout.log", "ial\nlast\n");
  EXPECT_THAT(texts(json(of_run("/logs?after=" + after))), ElementsAre("partial", "last"));
  EXPECT_THAT(texts(json(of_run("/logs?grep=^t&rank=0"))), ElementsAre("three"));
  const auto one = json(of_run("/logs?lines=1&stream=out"));
  EXPECT_THAT(texts(one), ElementsAre("last"));
  EXPECT_EQ(one.at("skipped").as_int64(), 3);
  EXPECT_EQ(of_run("/logs?grep=(").status, 400);
  EXPECT_EQ(of_run("/logs?after=x").status, 400);
}

TEST_F(ApiTest, TheLaunchersLogIsOneToo) {
  write("train-run.log", "ts=2026-11-26T10:00:00.000000Z level=info msg=a\nlevel=info\n");

  const auto answer = json(of_run("/logs?source=launcher"));

  const auto& lines = answer.at("lines").as_array();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].at("t").as_string(), "2026-11-26T10:00:00.000000Z");
  EXPECT_TRUE(lines[1].at("t").is_null());
  const std::string after(answer.at("after").as_string());
  append("train-run.log", "more\n");
  EXPECT_EQ(json(of_run("/logs?source=launcher&after=" + after)).at("lines").as_array().size(), 1U);
}

TEST_F(ApiTest, FilesAreListedAndHandedOutWithTheirTypes) {
  write("attempts/000/stacks/20261126-100000.000-hung.txt", "stacks");
  write("attempts/000/profiles/20261126-100000-rank-0001-cpu.html", "<script>1</script>");
  ASSERT_EQ(::symlink("/etc/passwd", path("attempts/000/stacks/20261126-1-x.txt").c_str()), 0);

  const auto files = json(of_run("/files")).at("files").as_array();

  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(of_run("/files/attempts/000/stacks/20261126-100000.000-hung.txt").body, "stacks");
  EXPECT_EQ(of_run("/files/attempts/000/stacks/20261126-1-x.txt").status, 404);
  const HttpResponse page =
      of_run("/files/attempts/000/profiles/20261126-100000-rank-0001-cpu.html");
  ASSERT_EQ(page.headers.size(), 2U);
  EXPECT_THAT(page.headers[0].second, HasSubstr("sandbox allow-scripts;"));
  EXPECT_EQ(json(of_run("/files?kind=profile&rank=1")).at("files").as_array().size(), 1U);
}

TEST_F(ApiTest, SecretsOfTheSpecAreHidden) {
  write("spec.yaml", "command: [x]\nenv:\n  HF_TOKEN: hunter2hunter2\n");

  const HttpResponse answer = of_run("/spec");

  EXPECT_THAT(answer.body, testing::Not(HasSubstr("hunter2")));
  EXPECT_THAT(answer.body, HasSubstr("redacted:HF_TOKEN"));
}

TEST_F(ApiTest, AProfileMayBeOfMemoryButNotOfAnythingElse) {
  const FileDescriptor held = lock();

  const HttpResponse heap = post("/profile", R"({"rank":1,"kind":"heap"})");
  EXPECT_EQ(heap.status, 400);
  EXPECT_THAT(heap.body, HasSubstr("is none of cpu, wall and memory"));

  EXPECT_EQ(post("/profile", R"({"rank":1,"kind":"memory","seconds":7})").status, 202);
  EXPECT_EQ(read_text(path(name_beginning_with(".profile-"))),
            R"({"rank":1,"kind":"memory","time_ms":7000})");
}

TEST_F(ApiTest, AProfileIsAskedForAndItsAnswerLeadsToAllOfItsFiles) {
  const FileDescriptor held = lock();

  EXPECT_EQ(post("/profile", R"({"rank":1,"kind":"wall","seconds":7})").status, 202);

  const std::string request = name_beginning_with(".profile-");
  EXPECT_EQ(read_text(path(request)), R"({"rank":1,"kind":"wall","time_ms":7000})");
  EXPECT_EQ(post("/profile", R"({"rank":0})").status, 409);
  EXPECT_EQ(json(of_run("/tasks/1")).at("state").as_string(), "running");
  const std::string name = "attempts/000/profiles/20261126-100000.000-rank-0001-wall";
  for (const char* ending : {".txt", ".speedscope.json", ".html"}) write(name + ending, "x");
  write(".answer-" + request.substr(request.find('-') + 1),
        R"({"path":")" + name + R"(.txt","error":""})");
  const auto task = json(of_run("/tasks/1"));
  EXPECT_EQ(task.at("state").as_string(), "done");
  EXPECT_EQ(boost::json::serialize(task.at("files")),
            "[\"" + name + ".txt\",\"" + name + ".speedscope.json\",\"" + name + ".html\"]");
}

TEST_F(ApiTest, AProfileThatCannotBeTakenSaysWhy) {
  const FileDescriptor held = lock();
  ASSERT_EQ(post("/profile", R"({"rank":0})").status, 202);
  const std::string request = name_beginning_with(".profile-");
  EXPECT_EQ(read_text(path(request)), R"({"rank":0,"kind":"cpu","time_ms":5000})");

  write(".answer-" + request.substr(request.find('-') + 1),
        R"({"path":"","error":"rank 0 has no worker now"})");

  const auto task = json(of_run("/tasks/1"));
  EXPECT_EQ(task.at("state").as_string(), "failed");
  EXPECT_EQ(task.at("error").as_string(), "rank 0 has no worker now");
}

TEST_F(ApiTest, NoProfileIsTakenThatNobodyCouldTake) {
  const FileDescriptor held = lock();
  for (const char* body :
       {"", "{}", "[0]", "7", R"({"rank":2})", R"({"rank":-1})", R"({"rank":"0"})",
        R"({"rank":0.5})", R"({"rank":0,"kind":"heap"})", R"({"rank":0,"kind":7})",
        R"({"rank":0,"seconds":0})", R"({"rank":0,"seconds":61})", R"({"rank":0,"seconds":1.5})",
        R"({"rank":0,"seconds":9223372036854775807})"})
    EXPECT_EQ(post("/profile", body).status, 400) << body;
  EXPECT_EQ(name_beginning_with(".profile-"), "");
}

TEST_F(ApiTest, ARunThatIsNotRunningCanBeAskedForNothing) {
  EXPECT_EQ(post("/stop").status, 503);
  EXPECT_EQ(post("/stacks").status, 503);
  EXPECT_EQ(post("/profile", R"({"rank":0})").status, 503);
  EXPECT_FALSE(std::filesystem::exists(path(".stop")));
}

TEST_F(ApiTest, TwoRunsOfOneNameHaveTwoIds) {
  EXPECT_NE(run_id_of("/a/job"), run_id_of("/b/job"));
  EXPECT_THAT(run_id_of("/a/b c/ü"), testing::MatchesRegex("__~[0-9a-f]{8}"));
}

}  // namespace
}  // namespace train
