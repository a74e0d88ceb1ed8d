#include "launcher/torchrun/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "launcher/spec/fields.h"
#include "launcher/spec/job_flags.h"
#include "launcher/torchrun/command.h"
#include "lib/model/cpu_binding.h"
#include "lib/yaml/writer.h"

namespace train {
namespace {

Error mistake(std::string what, std::string hint = {}) {
  return {Errc::InvalidArgument, "torchrun: " + std::move(what), std::move(hint)};
}

std::optional<int> number_of(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

struct Nodes {
  int min = 1, max = 1;
};

class Launch {
 public:
  Launch(const TorchrunArguments& arguments, const TorchrunPlace& place)
      : arguments_(arguments), place_(place) {}

  Result<TorchrunLaunch> take() {
    TRY_VOID(refuse_what_has_no_counterpart());
    TRY(nodes_, nodes());
    TRY(per_node_, workers_per_node());
    TRY_VOID(place_workers());
    give_gpus();
    if (const std::string binding = arguments_.text("numa-binding"); !binding.empty())
      set("--numa-binding", "scaling_config.bind", binding);
    set("--max-restarts", "run_config.failure_config.max_failures", max_restarts());
    if (arguments_.given("rdzv-id") && !arguments_.flag("standalone"))
      set("--rdzv-id", "env.TORCHELASTIC_RUN_ID", yaml::write_text(arguments_.text("rdzv-id")));
    if (arguments_.given("role"))
      set("--role", "env.ROLE_NAME", yaml::write_text(arguments_.text("role")));
    if (arguments_.given("rdzv-conf"))
      launch_.notes.emplace_back(
          "--rdzv-conf has no effect: train-run needs no rendezvous; "
          "run_config.failure_config.start_timeout limits how long a start may take");
    show_output();
    TRY(launch_.command, torchrun_command_line(arguments_, place_.environment));
    launch_.program = program_name(
        arguments_.flag("no-python") && !arguments_.flag("run-path")
            ? std::vector<std::string>{arguments_.script()}
        : arguments_.flag("module") ? std::vector<std::string>{"python", "-m", arguments_.script()}
                                    : std::vector<std::string>{"python", arguments_.script()});
    return std::move(launch_);
  }

 private:
  void set(const char* option, const char* key, const std::string& value) {
    launch_.overrides.emplace_back(fmt::format("{}={}", key, value), option);
  }
  std::string variable(const char* name) const {
    const auto found = place_.environment.find(name);
    return found == place_.environment.end() ? "" : found->second;
  }

  Result<Unit> refuse_what_has_no_counterpart() const {
    struct Refused {
      const char* option;
      const char* what_to_do;
    };
    constexpr std::array kRefused{
        Refused{"duplicate-stdout-filters",
                "train-run logs RUN --stream out --grep REGEX prints such lines, with --follow "
                "while the run goes on"},
        Refused{"duplicate-stderr-filters",
                "train-run logs RUN --stream err --grep REGEX prints such lines, with --follow "
                "while the run goes on"},
        Refused{"logs-specs",
                "the run's folder has all output; --log-dir, --redirects, --tee and "
                "--log-line-prefix-template say where it is and what is shown"}};
    for (const Refused& refused : kRefused)
      if (arguments_.given(refused.option) && !arguments_.text(refused.option).empty())
        return mistake(fmt::format("--{} has no counterpart in train-run", refused.option),
                       refused.what_to_do);
    if (const std::string binding = arguments_.text("numa-binding");
        !binding.empty() && (!parse_cpu_binding(binding) || binding == "none"))
      return mistake(fmt::format("--numa-binding is {}", yaml::write_text(binding)),
                     "write node, socket, exclusive or core-complex");
    if (const std::string handler = arguments_.text("event-log-handler"); handler != "null")
      return mistake(fmt::format("--event-log-handler {} has no counterpart in train-run", handler),
                     "the run's events are in events.jsonl in its folder, and "
                     "run_config.notify tells a program of them");
    if (variable("TORCHELASTIC_ENABLE_FILE_TIMER") == "1")
      return mistake("TORCHELASTIC_ENABLE_FILE_TIMER has no counterpart in train-run",
                     "unset it, and write --set run_config.failure_config.hang_timeout=10m");
    constexpr std::array<std::string_view, 5> kBackends{"static", "c10d", "etcd", "etcd-v2", ""};
    if (const std::string backend = arguments_.text("rdzv-backend");
        std::find(kBackends.begin(), kBackends.end(), backend) == kBackends.end())
      return mistake(fmt::format("--rdzv-backend {} is not known", backend),
                     "leave it out: train-run needs no rendezvous");
    constexpr std::array<std::string_view, 3> kMethods{"spawn", "fork", "forkserver"};
    if (const std::string method = arguments_.text("start-method");
        std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end())
      return mistake(fmt::format("--start-method {} is none of spawn, fork, forkserver", method));
    constexpr std::array<std::string_view, 5> kSignals{"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT",
                                                       "SIGUSR1"};
    for (const std::string& signal : split(arguments_.text("signals-to-handle")))
      if (std::find(kSignals.begin(), kSignals.end(), signal) == kSignals.end())
        return mistake(fmt::format("--signals-to-handle names {}", yaml::write_text(signal)),
                       "train-run handles SIGTERM, SIGINT, SIGHUP and SIGUSR1: each asks for a "
                       "checkpoint, and stops the run");
    for (const std::string& part : split(arguments_.text("rdzv-conf")))
      if (!part.empty() && part.find('=') == std::string::npos)
        return mistake(fmt::format("--rdzv-conf has '{}' without '='", part),
                       "write KEY=VALUE,KEY=VALUE");
    if (number_of(arguments_.text("max-restarts")).value_or(0) < 0)
      return mistake("--max-restarts is less than 0",
                     "--set run_config.failure_config.max_failures=-1 allows any number");
    return Unit{};
  }

  std::string max_restarts() const {
    return fmt::format("{}", number_of(arguments_.text("max-restarts")).value_or(0));
  }

  Result<Nodes> nodes() const {
    const std::string text = arguments_.text("nnodes");
    const std::size_t colon = text.find(':');
    const auto min = number_of(std::string_view(text).substr(0, colon));
    const auto max = colon == std::string::npos ? min : number_of(text.substr(colon + 1));
    if (!min || !max || *min < 1 || *max < *min || *max > kWorkersMax)
      return mistake(fmt::format("--nnodes is '{}'", text),
                     "write a number of nodes, or MIN:MAX with 1 <= MIN <= MAX");
    if (number_of(arguments_.text("node-rank")).value_or(0) != 0)
      return mistake(fmt::format("--node-rank is {}", arguments_.text("node-rank")),
                     "train-run starts the workers of all nodes: run it once, with --hosts and "
                     "without --node-rank");
    if (*max > 1 && arguments_.flag("standalone"))
      return mistake(fmt::format("--standalone is given, and --nnodes is {}", text),
                     "remove one of the two");
    if (*max > 1 && place_.hosts == 0)
      return mistake(fmt::format("--nnodes is {}, and no nodes are named", text),
                     "start traind on each node, name them by --hosts HOST:PORT,HOST:PORT or "
                     "TRAINRUN_HOSTS, and run this command once, not on each node");
    if (place_.hosts > 0 && static_cast<std::size_t>(*min) > place_.hosts)
      return mistake(fmt::format("--nnodes is {}, and {} are named", text,
                                 place_.hosts == 1 ? std::string("only one node")
                                                   : fmt::format("only {} nodes", place_.hosts)),
                     "name more daemons by --hosts or TRAINRUN_HOSTS");
    return Nodes{*min, *max};
  }

  Result<int> workers_per_node() {
    const std::string text = arguments_.text("nproc-per-node");
    const auto number = number_of(text);
    if (number && *number >= 1 && *number <= kWorkersMax) return *number;
    if (number)
      return mistake(fmt::format("--nproc-per-node is {}", text),
                     fmt::format("write 1 to {}", kWorkersMax));
    const bool known = text == "auto" || text == "gpu" || text == "cpu";
    if (!known)
      return mistake(fmt::format("--nproc-per-node is '{}'", text),
                     "write a number, auto, gpu or cpu: train-run hands out CUDA's GPUs only");
    if (place_.hosts > 0) {
      // Each node has its own number: their traind's know what they have.
      if (nodes_.min != nodes_.max || std::cmp_not_equal(nodes_.max, place_.hosts))
        return mistake(
            fmt::format("--nproc-per-node is {}, and --nnodes is not the {} nodes that are named",
                        text, place_.hosts),
            "write the number of workers of each node, or --nnodes for all of them");
      if (text == "auto" && place_.gpus == 0 && !arguments_.given("gpus"))
        return mistake(
            "--nproc-per-node is auto, and whether the nodes have GPUs is not known here",
            "write gpu or cpu");
      automatic_ = true;
      return 1;
    }
    if (text == "gpu" && place_.gpus == 0)
      return mistake("--nproc-per-node is gpu, and this machine has no GPU that CUDA can use",
                     "write a number, auto or cpu");
    automatic_ = true;
    return text == "cpu" || place_.gpus == 0 ? place_.cpus : place_.gpus;
  }

  Result<Unit> place_workers() {
    const auto workers = [&](int nodes) { return std::int64_t{nodes} * per_node_; };
    if (workers(nodes_.max) > kWorkersMax)
      return mistake(fmt::format("{} nodes of {} workers are more than {} workers", nodes_.max,
                                 per_node_, kWorkersMax));
    set("--nproc-per-node", "scaling_config.num_workers",
        automatic_ ? "auto"
        : nodes_.min == nodes_.max
            ? fmt::format("{}", workers(nodes_.max))
            : fmt::format("{{min: {}, max: {}}}", workers(nodes_.min), workers(nodes_.max)));
    if (place_.hosts > 0 && !automatic_)
      set("--nproc-per-node", "scaling_config.workers_per_node", fmt::format("{}", per_node_));
    // As under torchrun, workers may be more than the cores.
    set("--nproc-per-node", "scaling_config.resources_per_worker.CPU", "0");
    if (arguments_.flag("standalone")) set("--standalone", "cluster.nodes", "[]");
    return Unit{};
  }

  // Where each worker can have a GPU, claim one: then other runs get others, and LOCAL_RANK is the
  // index, as under torchrun.
  void give_gpus() {
    if (arguments_.given("gpus")) {
      JobFlags flags;
      flags.gpus = arguments_.text("gpus");
      for (SpecOverride& override : overrides_of(flags, false))
        launch_.overrides.push_back(std::move(override));
      return;
    }
    const std::string asked = arguments_.text("nproc-per-node");
    const bool on_nodes = automatic_ && place_.hosts > 0;
    if (asked != "cpu" && (on_nodes || place_.gpus >= per_node_)) {
      set("--nproc-per-node", "scaling_config.use_gpu", "true");
      return;
    }
    if (place_.hosts > 0 && !on_nodes)
      launch_.notes.emplace_back(
          "the workers get no GPU, because this machine has none for each worker of a node; "
          "--gpus 1 gives each worker one of its node, --gpus 0 says that none is meant");
    if (place_.environment.contains("CUDA_VISIBLE_DEVICES")) {
      set("CUDA_VISIBLE_DEVICES", "env.CUDA_VISIBLE_DEVICES",
          yaml::write_text(variable("CUDA_VISIBLE_DEVICES")));
    } else if (place_.gpus > 0 && place_.hosts == 0) {
      std::string all;  // fewer than workers: they share them
      for (int gpu = 0; gpu < place_.gpus; ++gpu)
        all += fmt::format("{}{}", gpu > 0 ? "," : "", gpu);
      set("--nproc-per-node", "env.CUDA_VISIBLE_DEVICES", yaml::write_text(all));
    }
  }

  void show_output() {
    if (arguments_.given("log-dir")) launch_.storage = arguments_.text("log-dir");
    if (const std::string redirects = arguments_.text("redirects"); redirects != "0")
      launch_.redirects = redirects;
    if (const std::string ranks = arguments_.text("local-ranks-filter"); !ranks.empty())
      launch_.local_ranks = ranks;
    const std::string tee = arguments_.text("tee");
    if (tee == "0") return;  // torchrun puts a prefix only before what it copies
    launch_.tee = tee;
    std::string line = variable("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
    if (arguments_.given("log-line-prefix-template"))
      line = arguments_.text("log-line-prefix-template");
    launch_.prefix = line.empty() ? "[${role_name}${local_rank}]:" : line;
    std::string role;
    for (const char c : arguments_.text("role")) role += c == '$' ? "$$" : std::string(1, c);
    for (const char* name : {"${role_name}", "$role_name"}) {
      for (std::size_t at = 0; (at = launch_.prefix.find(name, at)) != std::string::npos;
           at += role.size())
        launch_.prefix.replace(at, std::string_view(name).size(), role);
    }
  }

  const TorchrunArguments& arguments_;
  const TorchrunPlace& place_;
  TorchrunLaunch launch_;
  Nodes nodes_;
  int per_node_ = 1;
  bool automatic_ = false;  // the number of workers is train-run's to find out
};

}  // namespace

Result<TorchrunLaunch> torchrun_launch(const TorchrunArguments& arguments,
                                       const TorchrunPlace& place) {
  return Launch(arguments, place).take();
}

}  // namespace train
