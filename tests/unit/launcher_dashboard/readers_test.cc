// The readers of a run's files, as these grow, are replaced, or are not what they should be.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>

#include "launcher/dashboard/journal_reader.h"
#include "launcher/dashboard/report_readers.h"
#include "launcher/dashboard/run_catalog.h"
#include "launcher/dashboard/run_data.h"
#include "tests/unit/launcher_dashboard/dashboard_fixture.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class ReadersTest : public RunFolderTest {};

TEST_F(ReadersTest, NoLinkIsFollowedAndNothingButPlainFilesIsRead) {
  write("../secret", "secret");
  write("plain", "12345");
  ASSERT_EQ(::symlink("../secret", path("link").c_str()), 0);
  ASSERT_EQ(::symlink("..", path("up").c_str()), 0);
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const FolderFiles files(run_);

  EXPECT_EQ(files.read_whole("plain", 5).value().text, "12345");
  EXPECT_EQ(files.read_whole("plain", 4).error().code, Errc::ResourceExhausted);
  EXPECT_EQ(files.read("plain", 1, 2).value().text, "23");
  EXPECT_EQ(files.read("plain", 9, 2).value().text, "");
  for (const char* name : {"link", "up/secret", "fifo", "../secret", "missing", "", "."})
    EXPECT_FALSE(files.read(name, 0, 10).has_value()) << name;
  EXPECT_FALSE(files.stamp("link").has_value());
  EXPECT_THAT(files.list("up"), ElementsAre());
  EXPECT_THAT(files.list(".."), ElementsAre());
  EXPECT_FALSE(files.is_folder("up"));
  EXPECT_THAT(files.list(""), ElementsAre("fifo", "link", "plain", "up"));
}

TEST_F(ReadersTest, FromThePlaceThatTheUserNamedOnNoLinkIsFollowed) {
  write("a/run/plain", "12345");
  write("elsewhere/run/plain", "secret");
  const FolderFiles files = FolderFiles(run_).of("a").of("run");
  ASSERT_EQ(files.folder(), run_ + "/a/run");
  ASSERT_EQ(files.read_whole("plain", 10).value().text, "12345");
  ASSERT_EQ(files.owner(), ::geteuid());

  replace_by_link("a", "elsewhere");

  EXPECT_FALSE(files.read_whole("plain", 10).has_value());
  EXPECT_FALSE(files.open("plain").has_value());
  EXPECT_FALSE(files.stamp("plain").has_value());
  EXPECT_FALSE(files.is_folder(""));
  EXPECT_THAT(files.list(""), ElementsAre());
  EXPECT_EQ(files.owner(), std::nullopt);
}

TEST_F(ReadersTest, OfAFolderThatBecomesALinkOnlyStaysWhatWasKnown) {
  write("../elsewhere/events.jsonl", record(R"({"event":"generation_taken","run_id":"theirs"})"));
  seq_ = 0;
  write_run();
  RunCatalog catalog({root_});
  const auto run = catalog.find(run_id_of(run_)).value();
  ASSERT_EQ(run->with([](RunData& data) { return data.view().run_id; }), "r");

  fs::rename(run_, root_ + "/old");
  fs::create_directory_symlink(root_ + "/elsewhere", run_);

  EXPECT_EQ(run->with([](RunData& data) { return data.view().run_id; }), "r");
  EXPECT_EQ(RunCatalog({root_}).runs().size(), 2U);  // elsewhere and old, but not job
}

TEST_F(ReadersTest, APlaceThatIsALinkIsFollowedForTheUserNamedIt) {
  write_run();
  ASSERT_EQ(::symlink(root_.c_str(), (root_ + "/link").c_str()), 0);

  EXPECT_EQ(RunCatalog({root_ + "/link"}).runs().size(), 1U);
}

TEST_F(ReadersTest, OfAJournalThatGrowsOnlyNewRecordsAreRead) {
  const FolderFiles files(run_);
  JournalReader journal(files);
  journal.update();
  EXPECT_EQ(journal.view().state, "unknown");
  write_run();
  journal.update();
  EXPECT_EQ(journal.view().state, "running");
  const std::string next = record(
      R"({"event":"state","state":"pausing","trigger":"pause_asked","attempt":0,"reason":"Ctrl-C"})");

  append("events.jsonl", next.substr(0, 20));
  journal.update();
  EXPECT_EQ(journal.view().state, "running");
  append("events.jsonl", next.substr(20));
  journal.update();

  EXPECT_EQ(journal.view().state, "pausing");
  EXPECT_EQ(journal.view().last_seq, 4U);
  EXPECT_EQ(journal.damage(), "");
}

TEST_F(ReadersTest, AJournalThatWasReplacedIsReadAnew) {
  write_run();
  const FolderFiles files(run_);
  JournalReader journal(files);
  journal.update();

  seq_ = 0;
  write("new", record(R"({"event":"generation_taken","run_id":"other"})"));
  fs::rename(path("new"), path("events.jsonl"));
  journal.update();

  EXPECT_EQ(journal.view().run_id, "other");
  EXPECT_EQ(journal.view().attempts.size(), 0U);
}

TEST_F(ReadersTest, ADamagedJournalSaysSoAndKeepsWhatCameBefore) {
  write_run();
  append("events.jsonl", "{\"seq\":4}\n");
  const FolderFiles files(run_);
  JournalReader journal(files);

  journal.update();

  EXPECT_EQ(journal.view().state, "running");
  EXPECT_THAT(journal.damage(), HasSubstr("behind record 3"));
}

TEST_F(ReadersTest, AJournalThatLacksARecordEndsBeforeIt) {
  write_run();
  ++seq_;
  append("events.jsonl", record(R"({"event":"state","state":"finished"})"));
  const FolderFiles files(run_);
  JournalReader journal(files);

  journal.update();

  EXPECT_EQ(journal.view().state, "running");
  EXPECT_EQ(journal.damage(),
            "events.jsonl cannot be read behind record 3: the next one is out of sequence");
}

TEST_F(ReadersTest, EventsAreFoundByTheirNumber) {
  std::string text;
  for (int i = 1; i <= 1000; ++i)
    text += record(R"({"event":"note","i":)" + std::to_string(i) + "}");
  write("events.jsonl", text);
  const FolderFiles files(run_);
  JournalReader journal(files);
  journal.update();

  const auto few = journal.after(700, 3);

  ASSERT_EQ(few.size(), 3U);
  EXPECT_EQ(few[0].seq, 701U);
  EXPECT_EQ(few[2].event.at("i").as_int64(), 703);
  EXPECT_EQ(journal.after(0, 5000).size(), 1000U);
  EXPECT_EQ(journal.after(999, 10).size(), 1U);
  EXPECT_EQ(journal.after(1000, 10).size(), 0U);
}

TEST_F(ReadersTest, ReportsOfARankAreReadAsTheyCome) {
  write_run();
  const FolderFiles files(run_);
  RankSeriesReader reader(files, 1);
  reader.update();
  EXPECT_EQ(reader.series().reports(), 2U);

  append("metrics.jsonl", report(1, 3, R"({"loss":0.1})") + report(0, 3, R"({"loss":0.2})"));
  append("metrics.jsonl", "not a report\n" + report(1, 4, R"({"loss":0.05})"));
  reader.update();

  EXPECT_EQ(reader.series().reports(), 4U);
  EXPECT_EQ(std::get<double>(reader.series().keys().at("loss").last), 0.05);
  RankReportsReader ranks(files);
  ranks.update();
  EXPECT_EQ(ranks.ranks().at(1).reports, 4U);
  EXPECT_EQ(ranks.newest(0)->report_seq, 3U);
  EXPECT_FALSE(ranks.newest(7).has_value());
}

TEST_F(ReadersTest, APartThatTheBucketsAreTooCoarseForIsReadAgain) {
  std::string text;
  for (int i = 1; i <= 10'000; ++i)
    for (int rank = 0; rank < 2; ++rank)
      text += report(rank, i, "{\"loss\":" + std::to_string(i + rank * 0.5) + "}");
  write("metrics.jsonl", text);
  const FolderFiles files(run_);
  RankSeriesReader reader(files, 1);
  reader.update();
  ASSERT_GT(reader.series().per_bucket(), 1U);

  const SeriesPart part = reader.part({"loss"}, 5003, 5102, 1000);

  EXPECT_EQ(part.per_bucket, 1U);
  ASSERT_EQ(part.starts.size(), 100U);
  EXPECT_EQ(part.starts.front().report, 5003U);
  EXPECT_EQ(part.cells.at("loss").front().min, 5003.5);
  EXPECT_EQ(part.cells.at("loss").back().max, 5102.5);
  EXPECT_LE(reader.part({"loss"}, 1, 10'000, 1000).starts.size(), 1000U);
}

TEST_F(ReadersTest, ALineWithoutAnEndIsNotReadForEver) {
  write("metrics.jsonl", std::string(5 << 20, 'x'));
  const FolderFiles files(run_);
  RankReportsReader ranks(files);

  ranks.update();
  ranks.update();

  EXPECT_TRUE(ranks.ranks().empty());
}

TEST_F(ReadersTest, ARunsRowHasWhatItsFilesSay) {
  write_run();
  RunReader run("job~1", FolderFiles(run_), run_);

  RunRow row = run.with([](RunData& data) { return data.row(); });

  EXPECT_EQ(row.state, "interrupted");  // nobody holds the lock
  EXPECT_EQ(row.workers, 2);
  EXPECT_EQ(row.reports, 2);
  EXPECT_EQ(row.epoch, 1);
  ASSERT_EQ(row.metrics.size(), 2U);
  EXPECT_TRUE(std::isnan(std::get<double>(row.metrics[0].second)));
  write("exit.json", R"({"code":1,"cause":"rank 1 died"})");
  append(
      "events.jsonl",
      record(
          R"({"event":"state","state":"errored","trigger":"gave_up","attempt":0,"reason":"x"})"));
  append("metrics.jsonl", report(0, 3, R"({"loss":0.25})"));
  row = run.with([](RunData& data) { return data.row(); });
  EXPECT_EQ(row.state, "errored");
  EXPECT_EQ(row.cause, "rank 1 died");
  EXPECT_EQ(row.reports, 3);
}

// ---- what the workers' time was used for

std::string seconds_of(const TimeAccounts& time) {
  JsonWriter json;
  put_time(json, time);
  return std::move(json).take();
}

TEST_F(ReadersTest, TheTimeOfARunningRunIsWhatItsLauncherWroteLast) {
  write_run();
  const FileDescriptor held = lock();
  const std::string note = "attempts/000/goodput.json";
  RunReader run("job~1", FolderFiles(run_), run_);
  EXPECT_EQ(run.with([](RunData& data) { return data.row().goodput_ratio; }), std::nullopt);

  write(note, R"({"worker_seconds":{"step":3},"run":{"worker_seconds":{"step":3,"start":1}}})");

  run.with([](RunData& data) {
    EXPECT_EQ(seconds_of(data.time()), R"({"step":3.0,"start":1.0})");
    EXPECT_EQ(seconds_of(data.time_of(*data.view().newest())), R"({"step":3.0})");
    EXPECT_EQ(data.row().goodput_ratio, 0.75);
  });
  write("new", R"({"worker_seconds":{"step":7},"run":{"worker_seconds":{"step":9,"down":1}}})");
  fs::rename(path("new"), path(note));
  run.with([](RunData& data) { EXPECT_EQ(data.row().goodput_ratio, 0.9); });
}

TEST_F(ReadersTest, TheTimeOfARunThatHasEndedIsThatOfItsEnd) {
  write_run();
  write("attempts/000/goodput.json", R"({"run":{"worker_seconds":{"step":1,"start":1}}})");
  append("events.jsonl", record(R"({"event":"attempt_ended","attempt":0,"failed":false,)"
                                R"("worker_seconds":{"step":6,"data":2}})"));
  RunReader run("job~1", FolderFiles(run_), run_);
  run.with([](RunData& data) { EXPECT_EQ(data.row().goodput_ratio, 0.5); });

  append("events.jsonl", record(R"({"event":"state","state":"finished"})"));
  write("run.json", R"({"goodput":{"ratio":0.1,"worker_seconds":{"step":6,"data":2,"down":4}}})");

  run.with([](RunData& data) {
    EXPECT_EQ(data.row().goodput_ratio, 0.5);
    EXPECT_EQ(seconds_of(data.time()), R"({"step":6.0,"data":2.0,"down":4.0})");
    EXPECT_EQ(seconds_of(data.time_of(*data.view().newest())), R"({"step":6.0,"data":2.0})");
  });
}

TEST_F(ReadersTest, ARunThatGoesOnAfterItsEndHasTheTimeOfItsAttemptsUntilTheNextNote) {
  write_run();
  append("events.jsonl", record(R"({"event":"attempt_ended","attempt":0,"failed":false,)"
                                R"("worker_seconds":{"step":6,"data":2}})"));
  write("run.json", R"({"goodput":{"worker_seconds":{"step":100}}})");
  append("events.jsonl", record(R"({"event":"attempt_started","attempt":1,"world_size":2})"));
  RunReader run("job~1", FolderFiles(run_), run_);

  run.with([](RunData& data) {
    EXPECT_EQ(seconds_of(data.time()), R"({"step":6.0,"data":2.0})");
    EXPECT_EQ(seconds_of(data.time_of(*data.view().newest())), "null");
  });
}

TEST_F(ReadersTest, WhatAnybodyWroteAsATimeIsSurvived) {
  write_run();
  fs::create_directories(path("attempts/000"));
  RunReader run("job~1", FolderFiles(run_), run_);
  for (const std::string text :
       {"", "[", "[]", "{}", R"({"run":7})", R"({"run":{"worker_seconds":[1]}})",
        R"({"run":{"worker_seconds":{"step":-1,"data":"x","<b>":3}}})"}) {
    write("new", text);
    fs::rename(path("new"), path("attempts/000/goodput.json"));
    run.with([&](RunData& data) { EXPECT_EQ(seconds_of(data.time()), "null") << text; });
    EXPECT_EQ(run.with([](RunData& data) { return data.row().goodput_ratio; }), std::nullopt);
  }
  write("new", R"({"run":{"worker_seconds":{"step":1e300,"data":1e308}}})");
  fs::rename(path("new"), path("attempts/000/goodput.json"));
  run.with([](RunData& data) { EXPECT_EQ(data.row().goodput_ratio, 0.5); });
}

TEST_F(ReadersTest, AProgramThatDoesNotTellHasTimesButNoGoodput) {
  write_run();
  write("attempts/000/goodput.json", R"({"run":{"worker_seconds":{"unknown":5,"start":1}}})");
  RunReader run("job~1", FolderFiles(run_), run_);

  run.with([](RunData& data) {
    EXPECT_EQ(data.row().goodput_ratio, std::nullopt);
    EXPECT_EQ(seconds_of(data.row().time), R"({"start":1.0,"unknown":5.0})");
  });
}

}  // namespace
}  // namespace train
