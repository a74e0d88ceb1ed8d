#include "launcher/spec/job_spec_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "launcher/core/ssh_hosts.h"
#include "launcher/spec/fields.h"
#include "launcher/spec/job_flags.h"
#include "launcher/spec/kind_readers.h"
#include "launcher/spec/reading.h"
#include "launcher/spec/resolved_yaml.h"
#include "launcher/spec/secrets.h"
#include "launcher/spec/section_reader.h"
#include "launcher/spec/spec_checks.h"
#include "launcher/spec/spec_file.h"
#include "launcher/spec/spec_layers.h"
#include "lib/base/utf8.h"
#include "lib/model/built_in_maps.h"

namespace train {
namespace {

using spec::Reading;

constexpr std::size_t kNameBytesMax = 128;
constexpr std::string_view kResolvedName = "spec.resolved.yaml";

std::string absolute_folder(const SpecSource& source) {
  std::filesystem::path folder = source.current_dir;
  if (folder.empty()) {
    std::error_code gone;  // a deleted current directory: "/" keeps paths absolute
    folder = std::filesystem::current_path(gone);
    if (gone) folder = "/";
  }
  const std::filesystem::path parent = (folder / source.path).lexically_normal().parent_path();
  return parent.empty() ? "/" : parent.string();
}

/// Return "vit-20261121-101500" for vit.yaml, for vit/job.yaml and, without a file, for the program
/// vit, with only those characters that a name may have.
std::string default_name(const SpecSource& source, const std::string& spec_folder,
                         const std::vector<std::string>& command) {
  std::string stem = std::filesystem::path(source.path).stem().string();
  if (source.path.empty()) stem = source.program.empty() ? program_name(command) : source.program;
  const std::string folder = std::filesystem::path(spec_folder).filename().string();
  if (stem == "job" && !folder.empty()) stem = folder;
  for (char& c : stem) {
    if (!spec::is_name(std::string("a") + c)) c = '-';
  }
  stem.erase(0, std::min(stem.find_first_not_of("._-"), stem.size()));
  if (stem.empty()) stem = "job";
  const std::size_t room = kNameBytesMax - std::min(kNameBytesMax / 2, source.timestamp.size() + 1);
  stem.resize(std::min(stem.size(), room));
  return source.timestamp.empty() ? stem : fmt::format("{}-{}", stem, source.timestamp);
}

void fill_in_defaults(Reading& reading, JobSpec& spec) {
  if (spec.run_config.name.empty())
    spec.run_config.name = default_name(reading.source, reading.spec_folder, spec.command);
  if (spec.working_dir.empty()) spec.working_dir = reading.spec_folder;
  FailureConfig& failure = spec.run_config.failure_config;
  // A replica group that dies costs the others little, and comes back.
  if (spec.backend == Backend::Torchft &&
      reading.given("run_config.failure_config.max_failures") == nullptr)
    failure.max_failures = kUnlimited;
  if (reading.given("run_config.failure_config.max_start_failures") == nullptr) {
    failure.max_start_failures = failure.max_failures;
  }
  if (spec.run_config.storage_path.empty() && reading.given("run_config.storage_path") == nullptr) {
    if (reading.source.home.empty()) {
      reading.diagnostics.error({}, "run_config.storage_path is not given, and HOME is not set",
                                "name a folder");
    }
    spec.run_config.storage_path =
        (std::filesystem::path(reading.source.home) / "train_results").lexically_normal().string();
  }
}

/// Keep one of the keys that say where the nodes are. What an option says counts more than what the
/// spec's file says.
void choose_nodes(Reading& reading, JobSpec& spec) {
  ClusterConfig& cluster = spec.cluster;
  if (cluster.nodes.empty() && !cluster.finds_nodes() && cluster.ssh.hosts.empty()) return;
  struct Key {
    std::string_view path;
    bool empty;
    void (*clear)(ClusterConfig&);
  };
  const std::array keys{
      Key{"cluster.nodes", cluster.nodes.empty(), [](ClusterConfig& c) { c.nodes.clear(); }},
      Key{"cluster.hosts_file", cluster.hosts_file.empty(),
          [](ClusterConfig& c) { c.hosts_file.clear(); }},
      Key{"cluster.dns", cluster.dns.empty(), [](ClusterConfig& c) { c.dns.clear(); }},
      Key{"cluster.ssh.hosts", cluster.ssh.hosts.empty(),
          [](ClusterConfig& c) { c.ssh.hosts.clear(); }}};
  const auto is_option = [&](const Key& key) {
    const spec::Origin* origin = reading.given(key.path);
    return origin != nullptr && origin->at.source != nullptr &&
           origin->at.source->name.starts_with("-");
  };
  const bool by_option = std::any_of(keys.begin(), keys.end(), is_option);
  const Key* chosen = nullptr;
  for (const Key& key : keys) {
    if (key.empty) continue;
    if (by_option && !is_option(key)) {
      key.clear(cluster);
      reading.origins.erase(reading.origins.find(key.path));
    } else if (chosen != nullptr) {
      const auto hint = key.path == "cluster.ssh.hosts" && chosen->path == "cluster.nodes"
                            ? "remove one of them: nodes may have ssh:HOST, too"
                            : "remove one of them";
      reading.diagnostics.error(reading.given(key.path)->at,
                                fmt::format("{} and {} are both given", chosen->path, key.path),
                                hint);
    } else {
      chosen = &key;
    }
  }
}

/// Move cluster.ssh.hosts to cluster.nodes, as "ssh:HOST".
void join_ssh_hosts(Reading& reading, JobSpec& spec) {
  constexpr std::string_view kHosts = "cluster.ssh.hosts";
  const std::vector<std::string> hosts = std::exchange(spec.cluster.ssh.hosts, {});
  if (hosts.empty() || !spec.cluster.nodes.empty()) return;
  const spec::Origin origin = *reading.given(kHosts);
  for (const std::string& host : hosts) {
    if (const auto parsed = parse_ssh_host(host); !parsed)
      reading.diagnostics.error(
          origin.at,
          fmt::format("{} has {}, which {}", kHosts, yaml::in_quotes(host), parsed.error().message),
          "write HOST, USER@HOST or USER@HOST:PORT");
    spec.cluster.nodes.push_back(std::string(kSshPrefix) + host);
  }
  reading.origins["cluster.nodes"] = origin;
}

/// Read TRAINRUN_CLUSTER, which supplies cluster.nodes if the spec does not.
void read_cluster_variable(Reading& reading, JobSpec& spec) {
  constexpr std::string_view kVariable = "TRAINRUN_CLUSTER";
  const auto variable = reading.source.environment.find(std::string(kVariable));
  if (reading.given("cluster.nodes") != nullptr || spec.cluster.finds_nodes() ||
      variable == reading.source.environment.end())
    return;
  std::string_view rest = variable->second;
  while (!rest.empty()) {
    const std::string_view node = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), node.size() + 1));
    if (const std::string mistake = spec::node_address_mistake(node); !mistake.empty()) {
      reading.diagnostics.error({},
                                fmt::format("the variable {} names the node {}, which {}",
                                            kVariable, yaml::in_quotes(node), mistake),
                                "write host:port, comma-separated");
    } else if (std::find(spec.cluster.nodes.begin(), spec.cluster.nodes.end(), node) !=
               spec.cluster.nodes.end()) {
      reading.diagnostics.error(
          {}, fmt::format("the variable {} names {} again", kVariable, yaml::in_quotes(node)),
          "remove it");
    } else {
      spec.cluster.nodes.emplace_back(node);
    }
  }
  if (!spec.cluster.nodes.empty()) reading.origins["cluster.nodes"] = {{}, std::string(kVariable)};
}

/// Return where the spec has its command: at its top, or in its first role; null: nowhere.
const yaml::Node* command_in(const yaml::Node& root) {
  if (!root.is(yaml::Node::Kind::Map)) return nullptr;
  if (const yaml::Node* command = root.find("command")) return command;
  const yaml::Node* roles = root.find("roles");
  if (roles == nullptr || roles->items.empty()) return nullptr;
  const yaml::Node& first = *roles->items.front();
  return first.is(yaml::Node::Kind::Map) ? first.find("command") : nullptr;
}

/// Put the words after "--" behind the command that the spec has, if any.
void add_arguments(Reading& reading, yaml::Tree& tree, const yaml::Node& root, JobSpec& spec) {
  if (!reading.source.arguments) return;
  const std::vector<std::string>& words = *reading.source.arguments;
  std::string text = fmt::format("{}", fmt::join(words, " "));
  std::replace(text.begin(), text.end(), '\n', ' ');
  const yaml::Source& line = tree.add_source("--", std::move(text));
  const yaml::Node* command = command_in(root);
  if (!words.empty() && command != nullptr && command->is(yaml::Node::Kind::Scalar)) {
    reading.diagnostics.error(
        command->at, "the words after -- cannot follow this command, which a shell reads as a line",
        "write it as a list, such as [./train, --verbose]");
    return;
  }
  int column = 1;
  for (const std::string& word : words) {
    const yaml::Position at{&line, 1, column};
    if (utf8_text(word) != word)
      reading.diagnostics.error(at, fmt::format("the word {} is not UTF-8", yaml::in_quotes(word)),
                                "a spec holds only UTF-8: put it into a file, or rename the file");
    if (spec.command.empty() && word.empty())
      reading.diagnostics.error(at, "the program after -- is empty", "name the program");
    spec.command.push_back(word);
    column += static_cast<int>(word.size()) + 1;
  }
  const auto [origin, is_new] = reading.origins.try_emplace("command");
  if (is_new)
    origin->second.at = {&line, 1, 1};
  else if (!words.empty())
    origin->second.variable = "and the words after --";
}

/// Join the origins of run_config.name and the top-level name, which are one value. The printed
/// spec shows the top-level one.
void join_name_origins(Reading& reading) {
  if (const auto* origin = reading.given("run_config.name");
      origin != nullptr && reading.given("name") == nullptr) {
    reading.origins["name"] = *origin;
  }
  for (const auto& [path, origin] : std::map(reading.origins.begin(), reading.origins.end())) {
    if (path.starts_with("dataset_config."))
      reading.origins.emplace("datasets" + path.substr(path.find('.')), origin);
  }
}

/// Check that `resume` can read the resolved spec: an accepted spec must stay within the reader's
/// limits once aliases, variables, defaults and escapes are written out.
void check_readable_again(yaml::Diagnostics& diagnostics, const std::string& resolved) {
  if (resolved.size() > yaml::kBytesMax) {
    diagnostics.error({},
                      fmt::format("the spec has {} bytes once aliases, variables and defaults are "
                                  "written out, more than {}",
                                  resolved.size(), yaml::kBytesMax),
                      "keep data in files, and name them in the spec");
    return;
  }
  yaml::Tree tree;
  yaml::Diagnostics mistakes;
  tree.parse(tree.add_source(std::string(kResolvedName), resolved), mistakes);
  if (!mistakes.has_errors()) return;
  diagnostics.error({},
                    "resume could not read the spec that results from aliases, variables and "
                    "defaults:\n" +
                        mistakes.error_text());
}

}  // namespace

std::variant<ParsedSpec, std::string> parse_job_spec_text(const std::string& text,
                                                          const SpecSource& source) {
  yaml::Diagnostics diagnostics;
  yaml::Tree tree;
  Reading reading{source, diagnostics, {}, absolute_folder(source), {}};
  const yaml::Node* root = spec::read_layers(reading, tree, text);
  if (root == nullptr) return diagnostics.error_text();

  ParsedSpec parsed;
  parsed.text = text;
  spec::read_spec(reading, *root, parsed.spec);
  add_arguments(reading, tree, *root, parsed.spec);
  // Before any mistake is shown with its line.
  spec::learn_secrets(*root);
  spec::learn_secrets(parsed.spec);
  choose_nodes(reading, parsed.spec);
  join_ssh_hosts(reading, parsed.spec);
  read_cluster_variable(reading, parsed.spec);
  spec::read_callbacks_variable(reading, parsed.spec);
  spec::check_spec(reading, *root, parsed.spec);
  fill_in_defaults(reading, parsed.spec);
  if (diagnostics.has_errors()) return diagnostics.error_text();

  join_name_origins(reading);
  parsed.sweep = std::move(reading.sweep);
  parsed.resolved_yaml = spec::resolved_yaml(parsed.spec) + spec::sweep_yaml(parsed.sweep);
  check_readable_again(diagnostics, parsed.resolved_yaml);
  if (diagnostics.has_errors()) return diagnostics.error_text();
  parsed.annotated_yaml = spec::annotated_yaml(parsed.spec, reading) +
                          spec::annotated_sweep_yaml(parsed.sweep, reading);
  parsed.warnings = diagnostics.warnings();
  return parsed;
}

std::variant<ParsedSpec, std::string> parse_job_spec(const SpecSource& source) {
  if (source.path.empty()) {
    auto parsed = parse_job_spec_text("", source);
    if (auto* spec = std::get_if<ParsedSpec>(&parsed)) spec->text = spec->resolved_yaml;
    return parsed;
  }
  const std::filesystem::path file = std::filesystem::path(source.current_dir) / source.path;
  auto text = spec::read_spec_file(file.string());
  if (text.has_error())
    return fmt::format("{}: error: cannot read the spec: {}\n", source.path,
                       text.error().describe());
  return parse_job_spec_text(*text, source);
}

void set_workers(ParsedSpec& parsed, int count) {
  parsed.spec.scaling_config.num_workers = {count, count};
  parsed.resolved_yaml = spec::resolved_yaml(parsed.spec) + spec::sweep_yaml(parsed.sweep);
  // Its origin, a comment, stays behind it.
  constexpr std::string_view kAuto = "  num_workers: auto  # ";
  const std::size_t section = parsed.annotated_yaml.find("\nscaling_config:");
  if (const std::size_t at = parsed.annotated_yaml.find(kAuto, section); at != std::string::npos)
    parsed.annotated_yaml.replace(at, kAuto.size(),
                                  fmt::format("  num_workers: {}  # auto, ", count));
}

boost::json::object datasets_json(const JobSpec& spec) {
  boost::json::object datasets;
  for (const auto& [name, dataset] : spec.datasets) {
    boost::json::object schema;
    for (const auto& [column, type] : dataset.schema) schema[column] = type;
    boost::json::object entry{
        {"format", to_text(dataset.format)},
        {"path", boost::json::array(dataset.paths.begin(), dataset.paths.end())},
        {"columns", boost::json::array(dataset.columns.begin(), dataset.columns.end())},
        {"schema", std::move(schema)},
        {"delimiter", dataset.delimiter.value_or("")},
        {"newlines_in_values", dataset.newlines_in_values},
        {"labels", dataset.labels},
        {"items", dataset.items},
        {"split", dataset.split},
        {"shuffle", dataset.shuffle},
        {"shuffle_seed", dataset.shuffle_seed},
        {"shuffle_mode", kShuffleModes[static_cast<std::size_t>(dataset.shuffle_mode)]},
        {"shuffle_window", dataset.shuffle_window},
        {"lanes", dataset.lanes.value_or(0)},
        {"preserve_order", dataset.preserve_order},
        {"on_change", kOnChanges[static_cast<std::size_t>(dataset.on_change)]},
        {"filter", dataset.filter},
        {"limit", dataset.limit.value_or(0)},
    };
    if (dataset.balance) entry["balance"] = true;
    if (!dataset.mix.empty()) {
      entry["mix"] = boost::json::object(dataset.mix.begin(), dataset.mix.end());
      entry["stopping_condition"] = kMixStops[static_cast<std::size_t>(dataset.stopping_condition)];
      if (dataset.rows) entry["rows"] = *dataset.rows;
    }
    if (dataset.format == DatasetFormat::Images) {
      if (dataset.size)
        entry["size"] = boost::json::array{dataset.size->height, dataset.size->width};
      entry["mode"] = kImageModes[static_cast<std::size_t>(dataset.mode)];
      entry["include_paths"] = dataset.include_paths;
    }
    for (const MapStep& step : dataset.map) {
      if (!entry.contains("map")) entry["map"] = boost::json::array();
      entry["map"].as_array().push_back(
          boost::json::object{{"name", step.name}, {"arguments", step.arguments}});
    }
    for (const MapStep& step : dataset.preprocessors) {
      if (!entry.contains("preprocessors")) entry["preprocessors"] = boost::json::array();
      entry["preprocessors"].as_array().push_back(
          boost::json::object{{"name", step.name}, {"arguments", step.arguments}});
    }
    if (!dataset.preprocessors_from.empty())
      entry["preprocessors_from"] = dataset.preprocessors_from;
    if (dataset.skip_rows_max) entry["skip_rows_max"] = *dataset.skip_rows_max;
    if (dataset.ingest.workers.max > 0) entry["ingest_workers"] = dataset.ingest.workers.max;
    datasets[name] = std::move(entry);
  }
  return datasets;
}

}  // namespace train
