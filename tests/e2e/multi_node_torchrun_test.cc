// train-run torchrun beside the real torchrun: the same reading of command lines, the same
// training, the same environment of the workers, on one node and on two.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <set>
#include <sstream>

#include "launcher/torchrun/command.h"
#include "launcher/torchrun/launch.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

namespace json = boost::json;
using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

class RealTorchrun : public ::testing::Test {
 protected:
  void SetUp() override {
    if (torch_python().empty())
      GTEST_SKIP() << "SKIPPED: no Python with PyTorch (packaging/deps/install.sh)";
  }
};

struct Line {
  Words words;
  Environment environment = {};
};

// Reads lines with PyTorch's own parser, and says what it would start.
constexpr const char* kReader = R"py(
import argparse, contextlib, io, json, os, sys
import torch.distributed.run as run
answers = []
for line in json.load(open("lines.json")):
    for name in [n for n in os.environ if n.startswith("PET_") or n == "PYTHON_EXEC"]: del os.environ[name]
    os.environ.update(line["environment"])
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            args = run.parse_args(line["words"])
        config, cmd, cmd_args = run.config_from_args(args)
        run_path = callable(cmd)
        answers.append({"values": {k: v for k, v in vars(args).items()}, "command": ["(run_path)" if run_path else cmd] + cmd_args,
                        "python": sys.executable, "min": config.min_nodes, "max": config.max_nodes})
    except (SystemExit, Exception) as error:
        answers.append({"error": str(error)})
json.dump(answers, open("answers.json", "w"))
)py";

/// Return the value as torchrun's text for it.
std::string text_of_value(const json::value& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return std::string(value.as_string());
  if (value.is_int64()) return std::to_string(value.as_int64());
  if (value.is_double()) return fmt::format("{}", value.as_double());
  return json::serialize(value);
}

TEST_F(RealTorchrun, ReadsItsCommandLineAlike) {
  const std::vector<Line> lines{
      {{"train.py"}},
      {{"--standalone", "--nproc-per-node=2", "train.py", "--nproc-per-node", "7", "-h"}},
      {{"--standalone", "train.py", "--", "--x"}},
      {{"--", "train.py", "--", "--x"}},
      {{"train.py", "a", "--", "--x"}},
      {{"--nproc_per_node", "2", "-m", "pkg.train", "--lr", "0.1"}},
      {{"--no-python", "--", "./train", "a b", "$HOME"}},
      {{"--run-path", "--no-python", "/abs/train.py", "x"}},
      {{"--no-python", "-m", "x"}},
      {{"--nnodes=1:4", "--max_restarts", "3", "train.py"}},
      {{"--nnodes", "0", "train.py"}},
      {{"--nnodes", "3:2", "train.py"}},
      {{"--nnodes", "1:2:3", "train.py"}},
      {{"--rdzv-backend", "c10d", "--rdzv-endpoint", "h:1", "--rdzv_id", "42", "--rdzv-conf",
        "timeout=900,is_host=1", "train.py"}},
      {{"--master-addr", "10.0.0.1", "--master_port", "29501", "--local-addr", "x",
        "--monitor-interval", "0.5", "--start-method", "fork", "train.py"}},
      {{"--master-port", "http", "train.py"}},
      {{"--start-method", "clone", "train.py"}},
      {{"--max-restarts", "-1", "train.py"}},
      {{"--max-restarts", "many", "train.py"}},
      {{"--log-dir", "logs", "-r", "3", "-t3", "train.py"}},
      {{"-r=1", "--tee=0:3,1:1", "--role", "trainer", "train.py"}},
      {{"--local-ranks-filter=0,1", "train.py"}},
      {{"--signals-to-handle", "SIGTERM,SIGUSR1", "train.py"}},
      {{"--virtual-local-rank", "--nproc-per-node", "2", "train.py", "it's"}},
      {{"train.py"}, {{"PET_NPROC_PER_NODE", "3"}, {"PET_MODULE", "1"}, {"PET_NO_PYTHON", "0"}}},
      {{"train.py"}, {{"PYTHON_EXEC", "/opt/python"}, {"PET_RDZV_ID", "from env"}}},
      {{"--nproc-per-node", "2", "train.py"}, {{"PET_NPROC_PER_NODE", "3"}}},
      {{"train.py"}, {{"PET_STANDALONE", "yes"}}},
      {{"train.py"}, {{"PET_MAX_RESTARTS", "x"}}},
      {{"--r", "2", "train.py"}},
      {{"--stand", "train.py"}},
      {{"--nproc-per-nodes", "2", "train.py"}},
      {{"-x", "train.py"}},
      {{"-mr", "train.py"}},
      {{"--standalone=1", "train.py"}},
      {{"--nnodes"}},
      {{"--nnodes", "--standalone", "train.py"}},
      {{"--nproc-per-node", "2"}},
      {{}}};
  Cluster cluster;
  json::array asked;
  for (const Line& line : lines) {
    json::object environment;
    for (const auto& [name, value] : line.environment) environment[name] = value;
    asked.push_back(json::object{{"words", json::array(line.words.begin(), line.words.end())},
                                 {"environment", std::move(environment)}});
  }
  cluster.write("lines.json", json::serialize(asked));
  Process& reader = cluster.start({torch_python(), "-c", kReader});
  ASSERT_EQ(reader.wait(), 0) << reader.err();
  const json::array answers = json::parse(cluster.read(cluster.path("answers.json"))).as_array();
  ASSERT_EQ(answers.size(), lines.size());

  for (std::size_t at = 0; at < lines.size(); ++at) {
    const json::object& theirs = answers[at].as_object();
    SCOPED_TRACE(
        fmt::format("torchrun {}: {}", fmt::join(lines[at].words, " "), json::serialize(theirs)));
    Environment environment = lines[at].environment;
    if (const auto* python = theirs.if_contains("python"); python != nullptr)
      environment.try_emplace("PYTHON_EXEC", python->as_string());
    const auto arguments = TorchrunArguments::parse(lines[at].words, environment);
    const bool refused =
        !arguments.has_value() || !torchrun_launch(*arguments, {.hosts = 4}).has_value();
    EXPECT_EQ(refused, theirs.contains("error")) << (arguments ? "" : arguments.error().message);
    if (refused || theirs.contains("error")) continue;

    for (const auto& [name, value] : theirs.at("values").as_object()) {
      std::string option(name);
      std::replace(option.begin(), option.end(), '_', '-');
      if (option.starts_with("training-script") || option.starts_with("duplicate-")) continue;
      if (value.is_bool())
        EXPECT_EQ(arguments->flag(option), value.as_bool()) << option;
      else
        EXPECT_EQ(arguments->text(option), text_of_value(value)) << option;
    }
    Words command;
    for (const json::value& word : theirs.at("command").as_array())
      command.emplace_back(word.as_string());
    Words ours = *torchrun_command_line(*arguments, environment);
    if (command[0] == "(run_path)")
      ours.erase(ours.begin() + 1, ours.begin() + 4), ours[0] = command[0];
    if (!arguments->flag("virtual-local-rank")) EXPECT_EQ(ours, command);
  }
}

/// Return the lines, in order: those of several workers come in any.
std::multiset<std::string> lines_of(const std::string& text) {
  std::multiset<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.insert(line);
  return lines;
}

Words torchrun(const Words& words) {
  Words all{torch_python(), "-m", "torch.distributed.run"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

Words ours(const Words& words, const Cluster& cluster) {
  Words all{built("train-run"), "torchrun", "--storage", cluster.storage(), "--name", "job"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

TEST_F(RealTorchrun, TrainsTheSameScriptWithTheSameOutput) {
  Cluster cluster;
  const StartOptions python{.env = {{"PYTHON_EXEC", torch_python()}}, .prefix = {}, .cwd = ""};
  const Words words{"--standalone", "--nproc-per-node", "2", python_program("train_ddp.py")};
  Process& theirs = cluster.start(torchrun(words), python);
  Process& run = cluster.start(ours(words, cluster), python);
  EXPECT_EQ(theirs.wait(), 0) << theirs.err();
  EXPECT_EQ(run.wait(), 0) << run.err();

  EXPECT_EQ(lines_of(run.out()).size(), 2u) << run.out();
  EXPECT_EQ(lines_of(run.out()), lines_of(theirs.out()));
  EXPECT_TRUE(contains(run.err(), "job finished: 2 workers")) << run.err();
}

TEST_F(RealTorchrun, ShowsStreamsAndPrefixesAlike) {
  Cluster cluster;
  // With PYTHONUNBUFFERED, print writes the end of a line apart, where another worker's line comes
  // in between.
  const std::string script = cluster.write("talk.py", R"(import os
os.write(1, f"out of {os.environ['RANK']}\n".encode())
os.write(2, b"err\n")
)");
  const StartOptions python{.env = {{"PYTHON_EXEC", torch_python()}}, .prefix = {}, .cwd = ""};
  const auto mine = [](const std::string& text) {  // without what train-run or torchrun itself says
    std::multiset<std::string> lines;
    for (const std::string& line : lines_of(text))
      if (line.ends_with("err") || contains(line, "out of ")) lines.insert(line);
    return lines;
  };
  for (const Words& options :
       {Words{}, Words{"-t", "3"}, Words{"-r", "1"}, Words{"-r", "3", "-t", "2"},
        Words{"-t", "3", "--role", "trainer", "--local-ranks-filter", "1"}}) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(options, " ")));
    Words words{"--standalone", "--nproc-per-node", "2"};
    words.insert(words.end(), options.begin(), options.end());
    words.push_back(script);
    Process& theirs = cluster.start(torchrun(words), python);
    Process& run = cluster.start(ours(words, cluster), python);
    EXPECT_EQ(theirs.wait(), 0) << theirs.err();
    EXPECT_EQ(run.wait(), 0) << run.err();
    std::filesystem::remove_all(cluster.run_dir("job"));

    EXPECT_EQ(mine(run.out()), mine(theirs.out())) << run.out();
    EXPECT_EQ(mine(run.err()), mine(theirs.err())) << run.err();
  }
}

/// What the workers of both find in their environment, by rank.
struct Both {
  std::map<std::string, Environment> theirs, ours;
};

Both environments(Cluster& cluster, const Words& words, const Environment& shell) {
  const std::string script =
      cluster.write("dump.py",
                    "import json, os, sys\njson.dump(dict(os.environ), open(sys.argv[1] + '-' + "
                    "os.environ['RANK'] + '.json', 'w'))\n");
  StartOptions options{.env = shell, .prefix = {}, .cwd = ""};
  options.env["PYTHON_EXEC"] = torch_python();
  const auto with = [&](const std::string& name) {
    Words all = words;
    all.insert(all.end(), {script, cluster.path(name)});
    return all;
  };
  Process& theirs = cluster.start(torchrun(with("theirs")), options);
  Process& run = cluster.start(ours(with("ours"), cluster), options);
  EXPECT_EQ(theirs.wait(), 0) << theirs.err();
  EXPECT_EQ(run.wait(), 0) << run.err();
  std::filesystem::remove_all(cluster.run_dir("job"));
  Both both;
  for (const char* rank : {"0", "1"}) {
    const auto read = [&](const std::string& name) {
      Environment environment;
      const std::string text = cluster.read(cluster.path(name + "-" + rank + ".json"));
      if (text.empty()) return environment;
      const json::value parsed = json::parse(text);
      for (const auto& [key, value] : parsed.as_object()) environment[key] = value.as_string();
      return environment;
    };
    both.theirs[rank] = read("theirs");
    both.ours[rank] = read("ours");
  }
  return both;
}

TEST_F(RealTorchrun, GivesWorkersTheSameEnvironment) {
  struct Case {
    Words words;
    Environment shell;
  };
  const std::vector<Case> cases{
      {{"--standalone", "--nproc-per-node", "2", "--max-restarts", "3"}, {}},
      {{"--rdzv-backend", "c10d", "--rdzv-endpoint", "localhost:0", "--rdzv-id", "job 42", "--role",
        "trainer"},
       {{"MINE", "a b"}}},
      {{"--standalone", "--nproc-per-node", "2"},
       {{"OMP_NUM_THREADS", "3"}, {"CUDA_VISIBLE_DEVICES", "4,5"}, {"PET_ROLE", "reader"}}},
      {{"--standalone", "--nproc-per-node", "2", "--virtual-local-rank"},
       {{"CUDA_VISIBLE_DEVICES", "4,5"}}}};
  // Those that only one of them sets, or that belong to one run.
  const std::set<std::string> own{"MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_ERROR_FILE",
                                  // of torchrun's agent itself
                                  "TORCHELASTIC_SIGNALS_TO_HANDLE", "TORCHELASTIC_USE_AGENT_STORE",
                                  "_", "PWD", "OLDPWD", "SHLVL"};
  for (const Case& one : cases) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(one.words, " ")));
    Cluster cluster;
    const Both both = environments(cluster, one.words, one.shell);
    const bool standalone = one.words.front() == "--standalone";
    for (const auto& [rank, theirs] : both.theirs) {
      const Environment& ours = both.ours.at(rank);
      EXPECT_EQ(ours.empty(), theirs.empty()) << "rank " << rank;
      for (const auto& [name, value] : theirs) {
        if (name.starts_with("TRAINRUN_")) continue;  // settings of this test's train-run
        if (own.contains(name) || (standalone && name == "TORCHELASTIC_RUN_ID")) {
          EXPECT_TRUE(ours.contains(name) || !name.starts_with("MASTER_")) << name;
          continue;
        }
        const auto found = ours.find(name);
        EXPECT_EQ(found == ours.end() ? "(missing)" : found->second, value) << name;
      }
      for (const auto& [name, value] : ours) {
        const bool more = name.starts_with("TRAINRUN_") || name.starts_with("TORCH_FR_") ||
                          name.starts_with("TORCH_NCCL_") || own.contains(name) ||
                          name == "NODE_RANK" || name == "NNODES" || name == "NPROC_PER_NODE" ||
                          (name == "CUDA_VISIBLE_DEVICES" && value.empty());
        EXPECT_TRUE(more || theirs.contains(name)) << name << "=" << value;
      }
    }
  }
}

TEST_F(RealTorchrun, RestartsAsOftenAsItSays) {
  Cluster cluster;
  const std::string script = cluster.write(
      "fail.py",
      "import os, sys\nprint('life', os.environ['TORCHELASTIC_RESTART_COUNT'])\nsys.exit(3)\n");
  const StartOptions python{.env = {{"PYTHON_EXEC", torch_python()}}, .prefix = {}, .cwd = ""};
  const Words words{"--standalone", "--max-restarts", "2", script};
  Process& theirs = cluster.start(torchrun(words), python);
  Process& run = cluster.start(ours(words, cluster), python);

  EXPECT_EQ(theirs.wait(), 1);
  EXPECT_EQ(run.wait(), 3) << run.err();
  EXPECT_EQ(run.out(), "life 0\nlife 1\nlife 2\n");
  EXPECT_EQ(run.out(), theirs.out());
}

TEST(TorchrunHere, PutsTheLocalRankIntoArguments) {
  Cluster cluster;
  Process& run = cluster.start(ours({"--no-python", "--nproc-per-node", "2",
                                     program("plain_worker"), "print", "$$ it's ${local_rank}'s"},
                                    cluster));

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(lines_of(run.out()), (std::multiset<std::string>{"$ it's 0's", "$ it's 1's"}));
}

TEST(TorchrunHere, CanBeDetached) {
  Cluster cluster;
  Process& run = cluster.start(ours({"--detach", "--no-python", "-r", "1", "--nproc-per-node", "2",
                                     program("plain_worker"), "print", "--from $$ a worker"},
                                    cluster));
  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();

  EXPECT_TRUE(wait_until([&] { return exists(cluster.run_dir("job") + "/exit.json"); }));
  EXPECT_TRUE(wait_until([&] { return nothing_left(cluster); }));
  EXPECT_EQ(cluster.read(cluster.run_dir("job") + "/attempts/000/ranks/0001/stdout.log"),
            "--from $ a worker\n");
}

TEST(TorchrunHere, StandaloneStaysOnThisMachine) {
  Cluster cluster;
  Process& run = cluster.start(
      ours({"--standalone", "--no-python", program("plain_worker"), "env", "WORLD_SIZE"}, cluster),
      {.env = {{"TRAINRUN_HOSTS", "nobody:1"}, {"TRAINRUN_CLUSTER", "nobody:2"}},
       .prefix = {},
       .cwd = ""});

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(run.out(), "WORLD_SIZE=1\n");
}

TEST(TorchrunHere, StartsTheWorkersOfEachNode) {
  Cluster cluster;
  Nodes nodes(cluster, 3);
  nodes.start_all({"--resource", "CPU=8"});

  Process& run = cluster.start(
      ours({"--hosts", nodes.hosts(3), "--token-file", cluster.path("token"), "--nnodes", "2",
            "--nproc-per-node", "2", "--no-python", program("plain_worker"), "print", "here"},
           cluster));

  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_EQ(run.out(), "here\nhere\nhere\nhere\n");
  EXPECT_TRUE(contains(run.err(), "4 workers on 2 nodes")) << run.err();
}

}  // namespace
}  // namespace train::e2e
