// `train-run logs` with each of its options, during a run, after it, and across launchers; and what
// the terminal of a run shows of the output of several ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/e2e/cluster.h"
#include "tests/fakes/golden.h"

namespace train::e2e {
namespace {

/// Return a job of bash workers. `script` is their program; it has RANK.
std::string bash_job(const Cluster& cluster, const std::string& script, int workers) {
  const std::string path = cluster.write("worker.sh", script);
  return cluster.job("job", fmt::format("command: [bash, {}]\nscaling_config: {{num_workers: {}, "
                                        "resources_per_worker: {{CPU: 0}}}}\n",
                                        path, workers));
}

/// As users have it: identical lines are one.
const StartOptions kFolding{.env = {{"TRAINRUN_NO_FOLD", ""}}, .prefix = {}, .cwd = ""};

/// In a script: wait until the file exists.
std::string wait_for(const std::string& file) {
  return "while [ ! -e " + file + " ]; do sleep 0.02; done\n";
}

std::string said(Cluster& cluster, std::vector<std::string> words, int code = 0) {
  words.insert(words.begin(), {"logs", cluster.run_dir("job")});
  Process& process = cluster.train_run(words, kFolding);
  EXPECT_EQ(process.wait(), code) << process.err();
  return process.out();
}

std::string this_host() {
  std::string name = read_file("/proc/sys/kernel/hostname");
  return name.substr(0, name.find('\n'));
}

/// Ranks print one after the other, as files tell them: 2 "two", 0 "zero", all "all", 1 "oops" to
/// stderr, 3 "end".
std::string ordered_script(const Cluster& cluster) {
  const auto turn = [&](const std::string& name) { return cluster.path("turn_" + name); };
  const auto step = [&](int rank, const std::string& before, const std::string& print,
                        const std::string& after) {
    return fmt::format("if [ $RANK = {} ]; then\n{}{}\nsleep 0.05; touch {}\nfi\n", rank,
                       before.empty() ? "" : wait_for(turn(before)), print, turn(after));
  };
  return step(2, "", "echo two", "a") + step(0, "a", "echo zero", "b") + wait_for(turn("b")) +
         "echo all\ntouch " + turn("all") + "$RANK\n" +
         step(1, "b",
              wait_for(turn("all0")) + wait_for(turn("all2")) + wait_for(turn("all3")) +
                  "sleep 0.3; echo oops >&2",
              "c") +
         step(3, "c", "echo end", "d");
}

TEST(Logs, OfSeveralRanksAreInOrderOfTimeAndFolded) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({bash_job(cluster, ordered_script(cluster), 4)}), 0);

  EXPECT_EQ(said(cluster, {"--merge", "--grep", "two|zero|oops|end"}),
            "[2] two\n[0] zero\n[1] oops\n[3] end\n");
  const std::string all = said(cluster, {"--merge"});
  EXPECT_TRUE(contains(all, "] all\n")) << all;
  const std::string single = said(cluster, {"--merge", "--no-fold", "--grep", "^all$"});
  EXPECT_EQ(std::count(single.begin(), single.end(), '\n'), 4) << single;
  EXPECT_EQ(said(cluster, {}),
            "[0] zero\n[0] all\n[1] all\n[1] oops\n[2] two\n[2] all\n[3] all\n[3] end\n")
      << "rank by rank";
  EXPECT_EQ(said(cluster, {"--rank", "0,2-3", "--merge", "--grep", "two|end"}),
            "[2] two\n[3] end\n");
  EXPECT_EQ(said(cluster, {"--rank", "1"}), "all\noops\n") << "one rank needs no prefix";
  EXPECT_EQ(said(cluster, {"--rank", "1", "--stream", "err"}), "oops\n");
  EXPECT_EQ(said(cluster, {"--stream", "out", "--rank", "0-1"}), "[0] zero\n[0] all\n[1] all\n");
  EXPECT_EQ(said(cluster, {"--tail", "1"}), "[0] all\n[1] all\n[1] oops\n[2] all\n[3] end\n")
      << "of each stream";
  EXPECT_EQ(said(cluster, {"--tail", "2", "--merge"}), "[1] oops\n[3] end\n") << "of all together";
  EXPECT_EQ(said(cluster, {"--since", "1h", "--merge", "--grep", "two|zero|oops|end"}),
            "[2] two\n[0] zero\n[1] oops\n[3] end\n");
  EXPECT_EQ(said(cluster, {"--since", "2100-01-01"}), "");
}

// What torchrun's --duplicate-stdout-filters and --duplicate-stderr-filters write (README).
TEST(Logs, LinesOfOneStreamThatContainOneOfSomeTextsAreKeptInAFileAsTheyCome) {
  Cluster cluster;
  const std::string go = cluster.path("go");
  Process& run = cluster.train_run(
      {bash_job(cluster,
                "echo \"loss 1 of $RANK\"\necho noise\necho \"loss of $RANK\" >&2\n" +
                    wait_for(go) + "echo \"accuracy 2 of $RANK\"\nexit 0\n",
                2)});
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "noise"); })) << run.err();
  const std::vector<std::string> options{
      "logs", cluster.run_dir("job"), "--merge", "--stream", "out", "--grep", "loss|accuracy"};
  std::vector<std::string> follow = options;
  follow.push_back("--follow");
  Process& followed = cluster.train_run(follow);
  for (const char* line : {"loss 1 of 0\n", "loss 1 of 1\n"})
    ASSERT_TRUE(wait_until([&] { return contains(followed.out(), line); })) << followed.err();
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(followed.wait(), 0) << followed.err();

  Process& later = cluster.train_run(options);
  EXPECT_EQ(later.wait(), 0) << later.err();

  for (const std::string& out : {followed.out(), later.out()}) {
    for (const char* line : {"[0] loss 1 of 0\n", "[1] loss 1 of 1\n", "[0] accuracy 2 of 0\n",
                             "[1] accuracy 2 of 1\n"})
      EXPECT_TRUE(contains(out, line)) << out;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4) << out;
  }
}

TEST(Logs, OfRanksThatSayTheSameAreOneLine) {
  Cluster cluster;
  const std::string go = cluster.path("go"), end = cluster.path("end");
  Process& run = cluster.train_run(
      {bash_job(cluster,
                "touch " + cluster.path("here") + "$RANK\n" + wait_for(go) + "echo same\n" +
                    "[ $RANK != 2 ] && echo nearly >&2\n" + wait_for(end),
                4)},
      kFolding);
  for (const char* rank : {"0", "1", "2", "3"})
    ASSERT_TRUE(wait_until([&] { return exists(cluster.path("here") + rank); })) << run.err();
  Process& attached = cluster.train_run({"attach", cluster.run_dir("job")}, kFolding);
  Process& single = cluster.train_run({"attach", cluster.run_dir("job"), "--no-fold"});
  for (Process* process : {&attached, &single})
    ASSERT_TRUE(wait_until([&] {
      return contains(process->out(), "metrics:") || contains(process->out(), "checkpoint: none\n");
    }));
  cluster.write("go", "");
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "nearly\n"); })) << run.out();
  cluster.write("end", "");
  ASSERT_EQ(run.wait(), 0);
  ASSERT_EQ(attached.wait(), 0);
  ASSERT_EQ(single.wait(), 0);

  // On a machine that is busy, the ranks may be more than a second apart.
  const auto ranks_of = [](const std::string& out, const std::string& line) {
    std::size_t lines = 0, ranks = 0;
    std::istringstream stream(out);
    for (std::string text; std::getline(stream, text);) {
      if (!text.ends_with("] " + line)) continue;
      ++lines;
      for (char rank = '0'; rank < '4'; ++rank) ranks += text.find(rank) < text.find(']');
      if (text.starts_with("[0-3]")) ranks = 4;
    }
    return std::pair(lines, ranks);
  };
  EXPECT_TRUE(contains(run.out(), "[0-3] same\n") || ranks_of(run.out(), "same").first > 1)
      << run.out();
  EXPECT_TRUE(contains(run.out(), "[0-1,3] nearly\n") || ranks_of(run.out(), "nearly").first > 1)
      << run.out();
  EXPECT_LT(ranks_of(attached.out(), "same").first, 4u) << attached.out();
  EXPECT_EQ(ranks_of(single.out(), "same"), std::pair(std::size_t{4}, std::size_t{4}))
      << single.out();
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0002/stdout.log"), "same\n");
}

/// Follow a run whose launcher is killed and whose next one finds the workers.
TEST(Logs, AFollowerMissesNothingWhileTheLauncherIsReplaced) {
  Cluster cluster;
  const std::string one = cluster.path("one"), two = cluster.path("two"),
                    three = cluster.path("three");
  Process& run = cluster.train_run(
      {bash_job(cluster,
                "[ $RANK = 1 ] && echo first\n" + wait_for(one) + "[ $RANK = 0 ] && echo second\n" +
                    wait_for(two) + "[ $RANK = 1 ] && echo third >&2\n" + wait_for(three) +
                    "[ $RANK = 0 ] && echo fourth\nexit 0\n",
                2)});
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "first\n"); })) << run.err();
  Process& followed = cluster.train_run({"logs", cluster.run_dir("job"), "--merge", "--follow"});
  Process& filtered = cluster.train_run(
      {"logs", cluster.run_dir("job"), "-f", "--grep", "^(first|f.*h)$", "--rank", "0-1"});
  ASSERT_TRUE(wait_until([&] { return contains(followed.out(), "[1] first\n"); }))
      << followed.err();
  cluster.write("one", "");
  ASSERT_TRUE(wait_until([&] { return contains(followed.out(), "[0] second\n"); }));

  run.signal(SIGKILL);
  run.wait();
  Process& resumed = cluster.train_run({"resume", cluster.run_dir("job")});
  Process& again = cluster.train_run({"logs", cluster.run_dir("job"), "--merge", "--follow"});
  cluster.write("two", "");
  ASSERT_TRUE(wait_until([&] { return contains(resumed.out(), "third\n"); })) << resumed.err();
  Process& late = cluster.train_run({"logs", cluster.run_dir("job"), "--merge", "--follow"});
  ASSERT_TRUE(wait_until([&] { return contains(late.out(), "third\n"); })) << late.err();
  cluster.write("three", "");

  EXPECT_EQ(resumed.wait(), 0) << resumed.err();
  EXPECT_EQ(late.wait(), 0);
  const std::string all = "[1] first\n[0] second\n[1] third\n[0] fourth\n";
  EXPECT_EQ(late.out(), all);
  EXPECT_EQ(said(cluster, {"--merge"}), all);
  // These may have ended when they saw no launcher; what they have printed is a beginning.
  again.wait();
  followed.wait();
  filtered.wait();
  EXPECT_EQ(followed.out(), all.substr(0, followed.out().size()));
  EXPECT_TRUE(filtered.out() == "[1] first\n" || filtered.out() == "[0] fourth\n[1] first\n" ||
              filtered.out() == "[1] first\n[0] fourth\n")
      << filtered.out();
}

TEST(Attach, ARunWithALargeResultHasItsExitCode) {
  Cluster cluster;
  const int code = cluster.run({bash_job(cluster, "exit 3\n", 1)});
  ASSERT_NE(code, 0);
  const std::string path = cluster.run_dir("job") + "/exit.json";
  std::string exit = read_file(path);
  exit.insert(exit.find('{') + 1, "\"padding\": \"" + std::string(2 << 20, 'x') + "\", ");
  std::ofstream(path) << exit << std::flush;

  Process& attach = cluster.train_run({"attach", cluster.run_dir("job")});
  EXPECT_EQ(attach.wait(), code) << attach.err();
  EXPECT_NE(attach.out().find(fmt::format("exit code {}", code)), std::string::npos)
      << attach.out();
  Process& stop = cluster.train_run({"stop", cluster.run_dir("job")});
  EXPECT_EQ(stop.wait(), 1);
  EXPECT_EQ(stop.err(),
            fmt::format("train-run: error: {} is not running\n", cluster.run_dir("job")));
}

TEST(Logs, OfAnEarlierVersionAreShownWholeAndItIsSaid) {
  Cluster cluster;
  ASSERT_EQ(cluster.run({bash_job(cluster, "echo rank $RANK\n", 2)}), 0);
  ASSERT_TRUE(std::filesystem::remove(cluster.run_dir("job") + "/attempts/000/output.times"));

  Process& logs =
      cluster.train_run({"logs", cluster.run_dir("job"), "--merge", "--since", "2100-01-01"});
  EXPECT_EQ(logs.wait(), 0);
  EXPECT_EQ(logs.out(), "[0] rank 0\n[1] rank 1\n");
  EXPECT_EQ(logs.err(),
            "train-run: warning: when the output of attempt 0 arrived is not known: all of it is "
            "shown, one stream after the other\n");
  EXPECT_EQ(said(cluster, {"--rank", "1"}), "rank 1\n");
}

TEST(Logs, TheTerminalPrefixesAndFiltersAsTorchrunDoes) {
  Cluster cluster;
  const std::string job = bash_job(cluster, "echo rank $RANK\n", 3);
  Process& run = cluster.train_run(
      {job, "--log-line-prefix",
       "[${run} ${attempt} ${node} r${rank} l${local_rank}]:", "--local-ranks-filter", "0,2"});
  ASSERT_EQ(run.wait(), 0) << run.err();

  const std::string host = this_host();
  EXPECT_TRUE(contains(run.out(), "[job 0 " + host + " r0 l0]:rank 0\n")) << run.out();
  EXPECT_TRUE(contains(run.out(), "[job 0 " + host + " r2 l2]:rank 2\n")) << run.out();
  EXPECT_FALSE(contains(run.out(), "rank 1")) << run.out();
  EXPECT_EQ(said(cluster, {"--rank", "1"}), "rank 1\n") << "the files have everything";

  std::filesystem::remove_all(cluster.run_dir("job"));
  Process& by_variable = cluster.train_run(
      {job}, {.env = {{"TRAINRUN_LOG_LINE_PREFIX", "$rank|"}, {"TRAINRUN_LOCAL_RANKS_FILTER", "1"}},
              .prefix = {},
              .cwd = ""});
  ASSERT_EQ(by_variable.wait(), 0) << by_variable.err();
  EXPECT_TRUE(contains(by_variable.out(), "1|rank 1\n")) << by_variable.out();
  EXPECT_FALSE(contains(by_variable.out(), "rank 0")) << by_variable.out();
}

TEST(Logs, RedirectedStreamsAreOnlyInTheFiles) {
  Cluster cluster;
  const std::string job = bash_job(cluster, "echo out $RANK; echo err $RANK >&2\n", 2);
  Process& run = cluster.train_run({job, "-r", "0:1,1:3", "-t", "1:2"});
  ASSERT_EQ(run.wait(), 0) << run.err();
  const std::string shown = run.out() + run.err();
  EXPECT_TRUE(contains(shown, "0] err 0\n") && contains(shown, "1] err 1\n")) << shown;
  EXPECT_FALSE(contains(shown, "out 0") || contains(shown, "out 1")) << shown;
  EXPECT_TRUE(contains(said(cluster, {"--rank", "1"}), "out 1\n")) << "the files have everything";
}

TEST(Logs, AFloodIsCountedOnTheTerminalAndWholeInTheFiles) {
  Cluster cluster;
  const int lines = 200'000;
  Process& run = cluster.train_run(
      {bash_job(cluster,
                fmt::format("[ $RANK = 1 ] && seq -f 'line %.0f' {}\necho ready $RANK\n", lines),
                2),
       "--log-rate", "100"});
  ASSERT_EQ(run.wait(), 0) << run.err();

  std::istringstream out(run.out());
  int shown = 0, counted = 0;
  for (std::string line; std::getline(out, line);) {
    shown += contains(line, " 1] line ") || contains(line, "] ready 1");
    const std::size_t note = line.find(" 1] … ");
    if (note == std::string::npos) continue;
    EXPECT_TRUE(line.ends_with(" lines not shown (see attempts/000/ranks/0001)")) << line;
    std::string number = line.substr(note + std::string(" 1] … ").size());
    number = number.substr(0, number.find(' '));
    number.erase(std::remove(number.begin(), number.end(), ','), number.end());
    counted += std::stoi(number);
  }
  EXPECT_GE(shown, 100);
  EXPECT_LT(shown, lines / 10);
  EXPECT_EQ(shown + counted, lines + 1) << "the note counts each line that is left out";
  EXPECT_TRUE(contains(run.out(), "ready 0\n")) << "another rank's lines are shown";
  const std::string log =
      cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0001/stdout.log");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), lines + 1);
}

TEST(Logs, ATerminalShowsAThousandLinesASecondOfARankUnlessToldOtherwise) {
  Cluster cluster;
  const std::string job =
      bash_job(cluster, "[ $RANK = 1 ] && seq -f 'line %.0f' 20000\necho same\nsleep 0.1\n", 2);
  StartOptions terminal = kFolding;
  terminal.env["TERM"] = "xterm";
  const auto lines_on_terminal = [&](const std::string& options) {
    std::filesystem::remove_all(cluster.run_dir("job"));
    Process& run = cluster.start(
        {"script", "-qec", built("train-run") + " " + job + options, "/dev/null"}, terminal);
    EXPECT_EQ(run.wait(), 0) << run.out().substr(0, 2000);
    const std::string out = run.out();
    EXPECT_EQ(contains(out, " lines not shown (see attempts/000/ranks/0001)"), options.empty());
    int lines = 0;
    for (std::size_t at = out.find("1] line "); at != out.npos; at = out.find("1] line ", at + 1))
      ++lines;
    return lines;
  };

  const int shown = lines_on_terminal("");
  EXPECT_GE(shown, 1000);
  EXPECT_LT(shown, 20'000);
  EXPECT_EQ(lines_on_terminal(" --log-rate 0"), 20'000);
}

TEST(Logs, WhatIsWrongWithTheOptionsIsSaid) {
  Cluster cluster;
  const std::string job = bash_job(cluster, "echo $RANK\n", 2);
  ASSERT_EQ(cluster.run({job}), 0);
  const std::vector<std::vector<std::string>> asked{
      {"--rank", "3-1"},   {"--rank", "0,x"},        {"--rank", "7"},           {"--rank", "1-3"},
      {"--grep", "loss["}, {"--since", "5 parsecs"}, {"--since", "2026-02-30"}, {"--tail", "-1"},
      {"--stream", "log"}, {"--attempt", "4"}};
  std::string all;
  const auto add = [&](const std::vector<std::string>& words,
                       const std::vector<std::string>& real) {
    Process& process = cluster.train_run(real);
    const int code = process.wait().value_or(-1);
    all += fmt::format("$ train-run {}\n{}{}---- exit code {}\n", fmt::join(words, " "),
                       process.out(), process.err(), code);
  };
  for (const std::vector<std::string>& options : asked) {
    std::vector<std::string> words{"logs", "job"}, real{"logs", cluster.run_dir("job")};
    words.insert(words.end(), options.begin(), options.end());
    real.insert(real.end(), options.begin(), options.end());
    add(words, real);
  }
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--log-line-prefix", "${role}: "},
                                             {"--local-ranks-filter", "2-"},
                                             {"--redirects", "4"},
                                             {"--tee", "0:1,0:2"},
                                             {"--log-rate", "-5"}}) {
    std::vector<std::string> words{"run", "job.yaml"}, real{"run", job};
    words.insert(words.end(), options.begin(), options.end());
    real.insert(real.end(), options.begin(), options.end());
    add(words, real);
  }
  for (std::size_t at; (at = all.find(cluster.dir())) != std::string::npos;)
    all.replace(at, cluster.dir().size(), "DIR");
  fakes::expect_golden(TRAIN_SOURCE_DIR "/tests/golden/cli/logs_errors.txt", all);
}

}  // namespace
}  // namespace train::e2e
