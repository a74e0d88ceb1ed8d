// What torchrun's command line stands for: tests/golden/torchrun/launches.txt has each line with
// its meaning or its mistake. multi_node_torchrun_test compares the reading with PyTorch's own.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "launcher/torchrun/launch.h"
#include "tests/fakes/golden.h"

namespace train {
namespace {

using Words = std::vector<std::string>;
using Environment = std::map<std::string, std::string>;

std::string meaning(const Words& words, const TorchrunPlace& place) {
  const auto arguments = TorchrunArguments::parse(words, place.environment);
  if (!arguments) return "  error: " + arguments.error().describe() + "\n";
  const auto launch = torchrun_launch(*arguments, place);
  if (!launch) return "  error: " + launch.error().describe() + "\n";
  std::string text;
  for (const SpecOverride& override : launch->overrides)
    text += fmt::format("  {:<20} {}\n", override.option, override.text);
  text += fmt::format("  command              {}\n", fmt::join(launch->command, " "));
  text += fmt::format("  called               {}\n", launch->program);
  const auto say = [&](const char* what, const std::optional<std::string>& value) {
    if (value) text += fmt::format("  {:<20} {}\n", what, *value);
  };
  if (!launch->prefix.empty()) say("prefix", launch->prefix);
  say("redirects", launch->redirects);
  say("tee", launch->tee);
  say("local ranks", launch->local_ranks);
  say("storage", launch->storage);
  for (const std::string& note : launch->notes) text += "  note: " + note + "\n";
  return text;
}

TEST(Torchrun, EachLineMeansWhatItsGoldenFileSays) {
  std::string said;
  const auto say = [&](const Words& words, const TorchrunPlace& place = {.cpus = 6}) {
    for (const auto& [name, value] : place.environment) said += fmt::format("{}={} ", name, value);
    if (place.gpus > 0) said += fmt::format("({} GPUs) ", place.gpus);
    if (place.hosts > 0) said += fmt::format("({} hosts) ", place.hosts);
    said += fmt::format("torchrun {}\n{}\n", fmt::join(words, " "), meaning(words, place));
  };
  const TorchrunPlace gpus{.cpus = 6, .gpus = 4};
  const TorchrunPlace hosts{.cpus = 6, .hosts = 2};

  say({"train.py"});
  say({"--standalone", "--nproc-per-node=2", "train.py", "--nproc-per-node", "7", "--", "-h"});
  say({"--nproc_per_node", "2", "-m", "pkg.train", "--lr", "0.1"});
  say({"--no-python", "--", "./train", "a b", "$HOME"});
  say({"train.py", "--", "--lr", "--"});
  say({"--run-path", "--no-python", "/abs/train.py", "x"});
  say({"--no-python", "-m", "x"});
  say({"--nproc-per-node", "cpu", "train.py"});
  say({"--nproc-per-node", "auto", "train.py"});
  say({"--nproc-per-node", "auto", "train.py"}, gpus);
  say({"--nproc-per-node", "gpu", "train.py"}, gpus);
  say({"--nproc-per-node", "2", "train.py"}, gpus);
  say({"--nproc-per-node", "8", "train.py"}, gpus);
  say({"--nproc-per-node", "cpu", "train.py"}, gpus);
  say({"--nproc-per-node", "2", "--gpus", "2", "train.py"}, gpus);
  say({"--nproc-per-node", "2", "--gpus", "0", "train.py"}, gpus);
  say({"--nproc-per-node", "2", "train.py"},
      {.cpus = 6, .environment = {{"CUDA_VISIBLE_DEVICES", "7,8"}}});
  say({"--nproc-per-node", "gpu", "train.py"});
  say({"--nproc-per-node", "xpu", "train.py"});
  say({"--nproc-per-node", "0", "train.py"});
  say({"--nproc-per-node", "65537", "train.py"});
  say({"--nnodes", "2", "--nproc-per-node", "4", "train.py"}, hosts);
  say({"--nnodes", "1:2", "--nproc-per-node", "4", "--max-restarts", "3", "train.py"}, hosts);
  say({"--nnodes", "2", "--nproc-per-node", "4", "--gpus", "1", "train.py"}, hosts);
  say({"--nnodes", "2:3", "--nproc-per-node", "4", "train.py"}, {.cpus = 6, .gpus = 4, .hosts = 3});
  say({"--nnodes", "4096", "--nproc-per-node", "4096", "train.py"}, {.cpus = 6, .hosts = 5000});
  say({"--nnodes", "3", "train.py"}, hosts);
  say({"--nnodes", "2", "train.py"});
  say({"--nnodes", "2", "--standalone", "train.py"}, hosts);
  say({"--nnodes", "0", "train.py"});
  say({"--nnodes", "3:2", "train.py"}, hosts);
  say({"--nnodes", "1:2:3", "train.py"}, hosts);
  say({"--nnodes", "99999999999", "train.py"}, hosts);
  say({"--nnodes", "2", "--nproc-per-node", "auto", "train.py"}, hosts);
  say({"--nnodes", "2", "--nproc-per-node", "gpu", "train.py"}, hosts);
  say({"--nnodes", "2", "--nproc-per-node", "cpu", "train.py"}, hosts);
  say({"--nnodes", "1:2", "--nproc-per-node", "gpu", "train.py"}, hosts);
  say({"--node-rank", "1", "--nnodes", "2", "train.py"}, hosts);
  say({"--rdzv-backend", "c10d", "--rdzv-endpoint", "host:29400", "--rdzv-id", "job 42",
       "--rdzv-conf", "timeout=900,is_host=1", "train.py"});
  say({"--rdzv-backend", "zeus", "train.py"});
  say({"--rdzv-conf", "timeout", "train.py"});
  say({"--master-addr", "10.0.0.1", "--master-port", "29501", "--local-addr", "10.0.0.2",
       "--monitor-interval", "0.5", "--start-method", "fork", "train.py"});
  say({"--master-port", "http", "train.py"});
  say({"--monitor-interval", "soon", "train.py"});
  say({"--start-method", "clone", "train.py"});
  say({"--max-restarts", "-1", "train.py"});
  say({"--max-restarts", "many", "train.py"});
  say({"--log-dir", "logs", "-r", "3", "-t3", "train.py"});
  say({"--tee=0:3,1:1", "--role", "tr$iner", "train.py"});
  say({"-t", "1", "--local-ranks-filter=0,1", "train.py"},
      {.environment = {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "<${role_name} ${rank}> "}}});
  say({"-t", "1", "--log-line-prefix-template", "$local_rank|", "train.py"});
  say({"--event-log-handler", "null", "train.py"});
  say({"--event-log-handler", "console", "train.py"});
  say({"--duplicate-stdout-filters", "a,b", "train.py"});
  say({"--duplicate-stderr-filters", "a,b", "train.py"});
  say({"--logs-specs", "mine", "train.py"});
  say({"--numa-binding", "node", "train.py"});
  say({"--numa-binding", "sideways", "train.py"});
  say({"--signals-to-handle", "SIGTERM,SIGUSR1", "train.py"});
  say({"--signals-to-handle", "SIGTERM,SIGUSR2", "train.py"});
  say({"train.py"}, {.environment = {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}}});
  say({"--virtual-local-rank", "--nproc-per-node", "2", "train.py", "it's"}, gpus);
  say({"--nproc-per-node", "2", "train.py", "--rank=${local_rank}", "$local_rank$$", "$local_ranks",
       "${other}"});
  say({"train.py"}, {.environment = {{"PET_NPROC_PER_NODE", "3"},
                                     {"PET_MODULE", "1"},
                                     {"PET_NO_PYTHON", "0"},
                                     {"PYTHON_EXEC", "/opt/python"}}});
  say({"--nproc-per-node", "2", "train.py"}, {.environment = {{"PET_NPROC_PER_NODE", "3"}}});
  say({"train.py"}, {.environment = {{"PET_STANDALONE", "yes"}}});
  say({"train.py"}, {.environment = {{"PET_MAX_RESTARTS", "x"}}});
  say({"--nproc", "2", "train.py"});
  say({"--r", "2", "train.py"});
  say({"--max-restart=1", "--stand", "train.py"});
  say({"--nproc-per-nodes", "2", "train.py"});
  say({"--nam", "x", "train.py"});
  say({"-x", "train.py"});
  say({"-mr", "train.py"});
  say({"--standalone=1", "train.py"});
  say({"--nnodes"});
  say({"--nnodes", "--standalone", "train.py"});
  say({"--nproc-per-node", "2"});
  say({});
  fakes::expect_golden(TRAIN_SOURCE_DIR "/tests/golden/torchrun/launches.txt", said);
}

TEST(Torchrun, OwnOptionsStandAmongTorchruns) {
  const auto arguments = TorchrunArguments::parse(
      {"--hosts", "a:1,b:1", "--set", "x=1", "--set=y=2", "--dry-run", "--nnodes=2", "train.py"},
      {});

  ASSERT_TRUE(arguments.has_value()) << arguments.error().message;
  EXPECT_EQ(arguments->text("hosts"), "a:1,b:1");
  EXPECT_EQ(arguments->overrides(), (Words{"x=1", "y=2"}));
  EXPECT_TRUE(arguments->flag("dry-run"));
  EXPECT_FALSE(arguments->flag("detach"));
  EXPECT_EQ(arguments->text("nnodes"), "2");
  EXPECT_EQ(arguments->text("max-restarts"), "0");
}

TEST(Torchrun, HelpNamesEachOption) {
  const auto arguments = TorchrunArguments::parse({"--standalone", "-h"}, {});

  ASSERT_TRUE(arguments.has_value());
  EXPECT_TRUE(arguments->help());
  for (const char* option :
       {"--nnodes", "--nproc-per-node", "-m, --module", "-r, --redirects", "--hosts", "--set"})
    EXPECT_NE(torchrun_help().find(option), std::string::npos) << option;
}

}  // namespace
}  // namespace train
