// train-run data: with real files of every format, written by pyarrow, Pillow, numpy and tarfile.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <regex>
#include <sstream>

#include "tests/e2e/said_by.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

class Data : public testing::Test {
 protected:
  void SetUp() override {
    if (tools_python().empty()) GTEST_SKIP() << "the tools' Python is not installed";
  }

  void make(const std::string& what = "") {
    std::vector<std::string> argv{tools_python(),
                                  TRAIN_SOURCE_DIR "/tests/e2e/programs/make_datasets.py"};
    if (!what.empty()) argv.push_back(what);
    Process& made = cluster.start(argv);
    ASSERT_EQ(made.wait(), 0) << made.err();
  }
  void write_spec(const std::string& datasets) {
    cluster.write("job.yaml",
                  "command: [\"true\"]\nscaling_config: {num_workers: 2}\ndatasets:\n" + datasets);
  }
  std::string said(std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    // How wide a table is depends on the length of the folder's name.
    return std::regex_replace(said_by(cluster, cluster.train_run(words)), std::regex("   +"), "  ");
  }
  json::object said_json(std::vector<std::string> words) {
    words.insert(words.begin(), "data");
    Process& process = cluster.train_run(words);
    EXPECT_EQ(process.wait(), 0) << process.err();
    return json::parse(process.out()).as_object().at("datasets").as_array().at(0).as_object();
  }

  Cluster cluster;
};

TEST_F(Data, Help) {
  std::string text;
  for (const std::vector<std::string>& words :
       std::initializer_list<std::vector<std::string>>{{"--help"},
                                                       {"inspect", "--help"},
                                                       {"plan", "--help"},
                                                       {"bench", "--help"},
                                                       {"convert", "--help"},
                                                       {"inspekt", "job.yaml"},
                                                       {"plan", "job.yaml", "--worker", "8"}})
    text += said(words) + "\n";
  expect_golden("data_help", text);
}

TEST_F(Data, InspectShowsDatasetsOfEveryFormat) {
  make();
  write_spec(
      "  array: {path: array.npy}\n"
      "  cifar: {path: batch.bin, format: cifar}\n"
      "  feather: {path: rows.arrow, columns: [id, name]}\n"
      "  items: {format: items, items: [{x: 1, y: [1, 2]}, {x: 2, y: [3, 4]}]}\n"
      "  lines: {path: lines.jsonl}\n"
      "  mixed: {mix: {lines: 0.7, text: 0.3}}\n"
      "  numbers: {path: numbers/, filter: label < 3, limit: 10}\n"
      "  orc: {path: rows.orc}\n"
      "  pics: {format: images, path: pics, size: [4, 4], map: [flip, my_map]}\n"
      "  text: {path: text/}\n"
      "  web: {path: shards/000.tar}\n");
  expect_golden("data_inspect", said({"inspect", "job.yaml"}));
}

TEST_F(Data, InspectNamesWhatIsWrong) {
  make();
  cluster.write("pics/dog/9.jpg", "no picture");
  write_spec(
      "  broken: {format: images, path: pics, size: [4, 4]}\n"
      "  mixed: {path: mixed}\n"
      "  none: {path: nothing/*.csv}\n"
      "  nobody: {path: numbers, filter: label > 100}\n"
      "  typo: {path: numbers, columns: [lable]}\n");
  expect_golden("data_inspect_problems", said({"inspect", "job.yaml", "--rows", "0"}));
}

TEST_F(Data, InspectAsJson) {
  make();
  write_spec("  numbers: {path: numbers/, filter: label < 3}\n");
  const json::object shown =
      said_json({"inspect", "job.yaml", "--json", "--dataset", "numbers", "--rows", "1"});

  EXPECT_EQ(shown.at("rows"), 12);
  EXPECT_EQ(shown.at("rows_before_filter"), 40);
  EXPECT_EQ(shown.at("units"), 4);
  EXPECT_EQ(shown.at("format"), "parquet");
  EXPECT_EQ(
      json::serialize(shown.at("first_rows")),
      R"([{"id":0,"image":"<12 bytes 00 01 02 03 04 05 06 07 …>","label":0,"name":"row 0"}])");
  EXPECT_EQ(json::serialize(shown.at("columns").as_array().at(1)),
            R"({"name":"image","tensor":{"dtype":"uint8","row_shape":[12]},)"
            R"("type":"fixed_size_binary[12]"})");
  EXPECT_EQ(json::serialize(shown.at("problems")), "[]");
}

TEST_F(Data, PlanShowsWhatEachWorkerReads) {
  make("large");
  write_spec(
      "  files: {path: large/, columns: [id, image], split: true, shuffle: {seed: 3, mode: "
      "files}}\n"
      "  kept: {path: large/, columns: [id], split: true, preserve_order: true}\n"
      "  mixed: {path: large/, split: true, shuffle: {seed: 3, window: 1MiB}}\n"
      "  whole: {path: large/}\n");
  expect_golden("data_plan", said({"plan", "job.yaml", "--workers", "3", "--batch-size", "100"}));
}

TEST_F(Data, PlanAsJsonHasTheDigestOfCheckpoints) {
  make();
  write_spec("  numbers: {path: numbers/, split: true}\n");
  const json::object plan = said_json({"plan", "job.yaml", "--json", "--workers", "3"});

  EXPECT_EQ(plan.at("digest").as_string().size(), 16u);
  EXPECT_EQ(plan.at("steps"), 1);
  std::int64_t rows = 0;
  for (const json::value& rank : plan.at("ranks").as_array()) rows += rank.at("rows").as_int64();
  EXPECT_EQ(rows, 40);
}

TEST_F(Data, OfAMixTheWeightsAreShown) {
  write_spec(
      "  a: {format: items, items: [{x: 1}, {x: 2}]}\n"
      "  train: {mix: {a: 2, b: 1}}\n"
      "  b: {format: items, items: [{x: 1}]}\n");
  EXPECT_TRUE(contains(said({"inspect", "job.yaml", "--dataset", "train"}),
                       "dataset train: a mix of 66.7 % a, 33.3 % b\n"));
  EXPECT_TRUE(contains(said({"plan", "job.yaml"}), "dataset train: a mix of"));
  EXPECT_EQ(json::serialize(said_json({"plan", "job.yaml", "--json", "--dataset", "train"})),
            R"({"mix":{"a":2E0,"b":1E0},"name":"train"})");
}

TEST_F(Data, SaysWhatIsWrongWithTheCommand) {
  make();
  write_spec("  numbers: {path: numbers/}\n  text: {path: text/}\n");
  cluster.write("none.yaml", "command: [\"true\"]\nscaling_config: {num_workers: 2}\n");
  cluster.write("wrong.yaml",
                "command: [\"true\"]\nscaling_config: {num_workers: 2}\n"
                "datasets: {numbers: {pth: numbers/}}\n");
  std::string text;
  for (const std::vector<std::string>& words : std::initializer_list<std::vector<std::string>>{
           {"inspect", "job.yaml", "--dataset", "nunbers"},
           {"inspect", "job.yaml", "--dataset", "train"},
           {"inspect", "none.yaml"},
           {"plan", "wrong.yaml"},
           {"plan", "job.yaml", "--workers", "0"}})
    text += said(words) + "\n";
  expect_golden("data_errors", text);
}

TEST_F(Data, BenchMeasuresOperatorsAndMaps) {
  make();
  write_spec(
      "  pics: {format: images, path: pics, size: [4, 4], split: true, shuffle: true, map: "
      "[flip]}\n");
  const json::object benched = said_json(
      {"bench", "job.yaml", "--json", "--seconds", "0.2", "--workers", "2", "--batch-size", "2"});

  EXPECT_EQ(benched.at("workers"), 2);
  EXPECT_GT(benched.at("rows").as_int64(), 0);
  EXPECT_GT(json::value_to<double>(benched.at("rows_per_second")), 0);
  EXPECT_EQ(benched.at("without"), nullptr);
  std::vector<std::string> names;
  for (const json::value& one : benched.at("operators").as_array()) {
    names.emplace_back(one.at("name").as_string());
    EXPECT_GT(one.at("rows").as_int64(), 0) << names.back();
  }
  EXPECT_EQ(names, (std::vector<std::string>{"decode", "gather", "map decode_image", "map flip"}));
}

TEST_F(Data, BenchShowsWhatTookNoPart) {
  make();
  write_spec(
      "  mixed: {mix: {numbers: 1, fitted: 3}}\n"
      "  numbers: {path: numbers, columns: [id], map: [{scale: {column: id, factor: 2}}, my_map]}\n"
      "  fitted: {path: numbers, columns: [id], preprocessors: [{standard_scaler: [id]}]}\n");
  const std::string text = said({"bench", "job.yaml", "--seconds", "0.05"});
  // Figures differ each time.
  expect_golden("data_bench", std::regex_replace(text, std::regex("[0-9]+\\.?[0-9]*"), "N"));
}

TEST_F(Data, BenchSaysWhyItCannotRead) {
  make();
  cluster.write("pics/dog/9.jpg", "no picture");
  write_spec(
      "  broken: {format: images, path: pics, size: [4, 4]}\n"
      "  missing: {path: nothing.csv}\n");
  std::string text = said({"bench", "job.yaml", "--seconds", "0.05"}) + "\n";
  text += said({"bench", "job.yaml", "--seconds", "0"});
  expect_golden("data_bench_errors", text);
}

/// Return the bytes of all files of a folder, by name.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    files[entry.path().filename().string()] = read_file(entry.path().string());
  return files;
}

class Convert : public Data {
 protected:
  void SetUp() override {
    Data::SetUp();
    if (webdataset_folder().empty()) GTEST_SKIP() << "the webdataset package is not installed";
  }
  std::vector<std::string> words(const std::string& source, const std::string& folder,
                                 const std::vector<std::string>& more) {
    std::vector<std::string> all{"data", "convert", source, "-o", folder};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  void convert(const std::string& source, const std::string& folder,
               const std::vector<std::string>& more) {
    Process& process = cluster.train_run(words(source, folder, more));
    ASSERT_EQ(process.wait(), 0) << process.err();
  }
  /// Return the rows of converted folders, as pyarrow and webdataset read them.
  std::string dumped(const std::vector<std::string>& folders) {
    std::vector<std::string> argv{tools_python(),
                                  TRAIN_SOURCE_DIR "/tests/e2e/programs/dump_rows.py"};
    argv.insert(argv.end(), folders.begin(), folders.end());
    Process& process = cluster.start(argv, {.env = {{"PYTHONPATH", webdataset_folder()}}});
    EXPECT_EQ(process.wait(), 0) << process.err();
    return process.out();
  }
};

TEST_F(Convert, WritesWhatOthersRead) {
  make();
  std::vector<std::string> folders;
  const std::vector<std::pair<std::string, std::vector<std::string>>> sources{
      {"numbers", {"--filter", "id > 36", "--columns", "image,label,name"}},
      {"text", {"--schema", "id=int32"}},
      {"lines.jsonl", {"--limit", "3"}},
      {"array.npy", {"--limit", "3"}},
      {"rows.orc", {"--filter", "id < 3"}},
      {"rows.arrow", {"--limit", "3"}},
      {"batch.bin", {"--format", "cifar"}},
      {"pics", {"--format", "images", "--include-paths"}},
      {"shards", {}}};
  for (const auto& [source, options] : sources) {
    for (const std::string to : {"parquet", "arrow", "webdataset"}) {
      std::vector<std::string> more = options;
      more.insert(more.end(), {"--to", to, "--rows-per-file", "2"});
      folders.push_back(fmt::format("{}-{}", source, to));
      convert(source, folders.back(), more);
    }
  }
  expect_golden("data_converted", replaced(dumped(folders), cluster.dir(), "DIR"));
}

TEST_F(Convert, ReadsItsOwnFilesAgain) {
  make();
  convert("numbers", "a", {"--to", "webdataset", "--rows-per-file", "7"});
  convert("a", "b", {"--to", "arrow", "--rows-per-file", "9"});
  convert("b", "c", {"--to", "parquet", "--rows-per-file", "40"});

  const std::string rows = dumped({"c"});
  EXPECT_TRUE(contains(rows, R"({"__key__": "000000039", "cls": 9, "id": 39, )"
                             R"("image": "<12 bytes 11121314>", "name.txt": "row 39"})"))
      << rows;
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 42);
}

TEST_F(Convert, ShufflesBySeed) {
  make("large");
  const std::vector<std::string> more{"--to", "arrow",           "--columns",
                                      "id",   "--rows-per-file", "7000"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), more.begin(), more.end());
    return options;
  };
  convert("large", "plain", more);
  convert("large", "a", with({"--shuffle", "1"}));
  convert("large", "b", with({"--shuffle", "1"}));
  convert("large", "c", with({"--shuffle", "2"}));
  convert("large", "d", with({"--shuffle", "1", "--window", "64KiB"}));
  const auto sorted_rows = [&](const std::string& folder) {
    std::istringstream lines(dumped({folder}));
    std::vector<std::string> rows;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(' ')) rows.push_back(line);
    std::sort(rows.begin(), rows.end());
    return rows;
  };

  EXPECT_EQ(contents(cluster.path("a")), contents(cluster.path("b")));
  const auto first = [&](const std::string& folder) {
    return read_file(cluster.path(folder + "/part-000000.arrow"));
  };
  EXPECT_NE(first("a"), first("c"));
  EXPECT_NE(first("a"), first("d"));
  EXPECT_EQ(sorted_rows("plain").size(), 20000u);
  for (const std::string folder : {"a", "c", "d"})
    EXPECT_EQ(sorted_rows("plain"), sorted_rows(folder)) << folder;
}

TEST_F(Convert, GoesOnAfterItWasKilledAtAnyTime) {
  make("large");
  for (const std::string to : {"parquet", "webdataset"}) {
    const std::vector<std::string> more{"--to",      to,  "--rows-per-file", "333",
                                        "--shuffle", "5", "--window",        "256KiB"};
    convert("large", "whole-" + to, more);
    const std::string folder = "killed-" + to;
    const auto parts = [&] {
      std::error_code none;
      std::ptrdiff_t count = 0;
      for (const auto& entry : std::filesystem::directory_iterator(cluster.path(folder), none))
        count += entry.path().filename().string().starts_with("part-") ? 1 : 0;
      return count;
    };
    for (int time = 0; time < 100; ++time) {
      const auto before = parts();
      Process& process = cluster.train_run(words("large", folder, more));
      EXPECT_TRUE(wait_until([&] { return parts() > before + 10 || !process.running(); }));
      process.signal(SIGKILL);
      const auto code = process.wait();
      if (code == 0) break;
      ASSERT_EQ(code, 128 + SIGKILL) << process.err();
    }
    EXPECT_EQ(parts(), 61);
    EXPECT_EQ(contents(cluster.path(folder)), contents(cluster.path("whole-" + to)));
  }
}

TEST_F(Convert, GoesOnAfterItWasKilledWithinAFile) {
  make("large");
  const std::vector<std::string> more{"--to",      "arrow", "--rows-per-file", "4100",
                                      "--shuffle", "1",     "--window",        "64KiB"};
  convert("large", "whole", more);
  const auto whole = contents(cluster.path("whole"));
  convert("large", "cut", more);
  for (int file = 2; file < 5; ++file)
    std::filesystem::remove(cluster.path(fmt::format("cut/part-{:06}.arrow", file)));

  // A write beyond this limit kills a process.
  Process& cut = cluster.train_run(
      words("large", "cut", more),
      {.prefix = {"sh", "-c", "ulimit -c 0; ulimit -f 1000; exec \"$0\" \"$@\""}});
  EXPECT_EQ(cut.wait(), 128 + SIGXFSZ) << cut.err();
  EXPECT_TRUE(exists(cluster.path("cut/.part-000002.arrow.partial")));
  EXPECT_FALSE(exists(cluster.path("cut/part-000002.arrow")));

  convert("large", "cut", more);
  EXPECT_EQ(contents(cluster.path("cut")), whole);
}

TEST_F(Convert, MakesOnlyTheFilesThatAreMissing) {
  make("large");
  const std::vector<std::string> more{"--to",      "parquet", "--rows-per-file", "3000",
                                      "--shuffle", "1",       "--window",        "64KiB"};
  convert("large", "out", more);
  const auto whole = contents(cluster.path("out"));
  std::filesystem::remove(cluster.path("out/part-000003.parquet"));
  std::filesystem::remove(cluster.path("out/part-000006.parquet"));

  Process& again = cluster.train_run(words("large", "out", more));
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_TRUE(contains(again.out(), "wrote 2 of 7 files")) << again.out();
  EXPECT_EQ(contents(cluster.path("out")), whole);
}

TEST_F(Convert, SaysWhyItDoesNotConvert) {
  make();
  std::filesystem::create_directories(cluster.path("foreign"));
  cluster.write("foreign/notes.txt", "mine");
  const std::vector<std::string> more{"--to", "parquet", "--rows-per-file", "8"};
  convert("numbers", "done", more);
  cluster.write("nulls.csv", "a,b\n1,x\n,y\n");
  std::string text;
  const auto say = [&](const std::vector<std::string>& options) { text += said(options) + "\n"; };
  say({"convert", "numbers", "-o", "foreign", "--to", "parquet", "--rows-per-file", "8"});
  say({"convert", "numbers", "-o", "done", "--to", "parquet", "--rows-per-file", "9"});
  say({"convert", "text", "-o", "done", "--to", "parquet", "--rows-per-file", "8"});
  cluster.write("done/other.parquet", "");
  say({"convert", "numbers", "-o", "done", "--to", "parquet", "--rows-per-file", "8"});
  say({"convert", "numbers", "-o", "numbers/out", "--to", "parquet", "--rows-per-file", "8"});
  say({"convert", "numbers", "-o", "s3://bucket/out", "--to", "parquet", "--rows-per-file", "8"});
  say({"convert", "numbers", "-o", "out", "--to", "parket", "--rows-per-file", "8"});
  say({"convert", "numbers", "-o", "out", "--to", "parquet", "--rows-per-file", "0"});
  say({"convert", "numbers", "-o", "out", "--to", "parquet"});
  say({"convert", "number", "-o", "out", "--to", "parquet", "--rows-per-file", "8"});
  say({"convert", "pics", "-o", "out", "--to", "parquet", "--rows-per-file", "8", "--format",
       "image"});
  say({"convert", "mixed", "-o", "out", "--to", "parquet", "--rows-per-file", "8"});
  say({"convert", "numbers", "-o", "out", "--to", "parquet", "--rows-per-file", "8", "--columns",
       "lable"});
  say({"convert", "numbers", "-o", "out", "--to", "parquet", "--rows-per-file", "8", "--filter",
       "id <"});
  say({"convert", "nulls.csv", "-o", "out", "--to", "webdataset", "--rows-per-file", "8"});
  expect_golden("data_convert_errors", text);
  EXPECT_FALSE(exists(cluster.path("out/part-000000.tar")));
}

TEST_F(Convert, RefusesAFolderThatAnotherProcessFills) {
  make();
  std::filesystem::create_directories(cluster.path("out"));
  const int folder = ::open(cluster.path("out").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(folder, LOCK_EX | LOCK_NB), 0);

  Process& process =
      cluster.train_run(words("numbers", "out", {"--to", "parquet", "--rows-per-file", "8"}));
  EXPECT_EQ(process.wait(), 73);
  EXPECT_TRUE(contains(process.err(), "another process converts into out")) << process.err();
  ::close(folder);
}

TEST_F(Convert, SaysThatTheDiskIsFullAndGoesOnOnceThereIsRoom) {
  if (::geteuid() != 0) GTEST_SKIP() << "root is needed to mount a small disk";
  make("large");
  const std::vector<std::string> more{"--to", "arrow", "--rows-per-file", "2500"};
  convert("large", "whole", more);
  std::filesystem::create_directories(cluster.path("disk"));
  // A disk that has room for two of the eight files, and then for all.
  const std::string script =
      "mount -t tmpfs -o size=3m none disk && \"$0\" \"$@\"; echo \"exit $?\"; ls -A disk/out; "
      "mount -o remount,size=64m disk && \"$0\" \"$@\" && cp -r disk/out copy";
  Process& process = cluster.train_run(words("large", "disk/out", more),
                                       {.prefix = {"unshare", "-m", "sh", "-c", script}});
  EXPECT_EQ(process.wait(), 0) << process.err();
  expect_golden("data_convert_full_disk", process.out() + "---- errors\n" + process.err());
  EXPECT_EQ(contents(cluster.path("copy")), contents(cluster.path("whole")));
}

TEST_F(Convert, HoldsAWindowOfTheRowsAndNoMore) {
  make("huge");
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--to", "arrow"},
        std::vector<std::string>{"--to", "parquet", "--shuffle", "1", "--window", "32MiB"}}) {
    std::vector<std::string> argv{tools_python(), "-c",
                                  "import resource, subprocess, sys\n"
                                  "code = subprocess.call(sys.argv[1:])\n"
                                  "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)\n"
                                  "sys.exit(code)",
                                  built("train-run")};
    std::vector<std::string> command = words("huge", "out-" + more.at(1), more);
    command.insert(command.end(), {"--rows-per-file", "200000"});
    argv.insert(argv.end(), command.begin(), command.end());
    Process& process = cluster.start(argv);
    ASSERT_EQ(process.wait(), 0) << process.err();
    const std::string out = process.out();
    const long kib = std::stol(out.substr(out.rfind('\n', out.size() - 2) + 1));
    // The rows have 600 MiB when they are decoded.
    EXPECT_LT(kib, 400 << 10) << more.at(1);
  }
}

}  // namespace
}  // namespace train::e2e
