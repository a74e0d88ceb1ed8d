#include "launcher/spec/starter_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lib/yaml/writer.h"

namespace train {
namespace {

constexpr std::size_t kCommentColumn = 44;

/// A line of the file. A key without a place here comes at the end of its section.
struct Line {
  std::string section;  // scaling_config, run_config, or none
  std::string key;
  std::string value;
  std::string comment;
  bool active = false;  // otherwise it is commented out
};

std::string flow(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    std::string literal = word;  // not a variable of the spec
    for (std::size_t at = 0; (at = literal.find("${", at)) != std::string::npos; at += 3)
      literal.insert(at, "$");
    text += (text.empty() ? "" : ", ") + yaml::write_text(literal);
  }
  return "[" + text + "]";
}

std::vector<Line> usual_lines(const StarterSpec& starter) {
  const bool known = !starter.command.empty();
  const char* of_command = !known           ? "your program and its arguments"
                           : starter.python ? "a script for torchrun runs unchanged"
                                            : "each worker runs this";
  const std::string retries = "restarts from the newest checkpoint";
  return {
      {"", "name", "my-run", "default: the name of this file's folder, and the time"},
      {"", "command", flow(known ? starter.command : std::vector<std::string>{"./train"}),
       of_command, true},
      {"", "working_dir", ".", "default: the folder of this file"},
      {"", "env", "{OMP_NUM_THREADS: \"4\"}", "beside your own environment"},
      {"", "setup", "[./download.sh]", "once, before the workers; per_node_setup: on each node"},
      {"", "train_loop_config", "{epochs: 10, lr: 1.0e-3}", "values that the program reads"},
      {"scaling_config", "num_workers", fmt::format("{}", starter.num_workers),
       "or {min: 2, max: 8}: as many as there is room for", true},
      {"scaling_config", "use_gpu", "true", "a GPU for each worker", starter.use_gpu},
      {"scaling_config", "resources_per_worker", "{CPU: 4, memory: 16GiB}", "what each claims"},
      {"run_config", "storage_path", "~/train_results", "or a shared folder, s3://bucket/runs, …"},
      {"run_config", "failure_config", "{max_failures: 3}", retries, true},
      {"run_config", "checkpoint_config", "{num_to_keep: 2}", "default: keep all"},
      {"run_config", "stop", "{epoch: 10}", "end when rank 0 reports this"},
      {"", "datasets", "{train: {path: data/train, shuffle: {seed: 1}}}", "docs/data.md"},
      {"", "cluster", "{nodes: [\"gpu-1:7070\", \"gpu-2:7070\"], token_file: cluster.token}",
       "default: this machine"}};
}

/// Put values such as "scaling_config.resources_per_worker.CPU=0" at their places.
void put(std::vector<Line>& lines, const std::vector<SpecOverride>& values) {
  std::vector<std::string> taken;  // keys that `values` have set
  for (const SpecOverride& value : values) {
    const std::size_t equals = std::min(value.text.find('='), value.text.size());
    std::string path = value.text.substr(0, equals), section;
    std::string text = value.text.substr(std::min(equals + 1, value.text.size()));
    if (path.starts_with("scaling_config.") || path.starts_with("run_config.")) {
      section = path.substr(0, path.find('.'));
      path.erase(0, section.size() + 1);
    }
    const std::size_t dot = std::min(path.find('.'), path.size());
    const std::string key = path.substr(0, dot);
    if (dot < path.size()) text = fmt::format("{{{}: {}}}", path.substr(dot + 1), text);
    auto line = std::find_if(lines.begin(), lines.end(),
                             [&](const Line& l) { return l.section == section && l.key == key; });
    if (line == lines.end()) {
      line = std::find_if(lines.rbegin(), lines.rend(), [&](const Line& l) {
               return l.section == section;
             }).base();
      line = lines.insert(line, {section, key, "", "", true});
    }
    const bool more = std::find(taken.begin(), taken.end(), section + "." + key) != taken.end();
    if (more && line->value.ends_with('}') && text.starts_with('{'))
      line->value = line->value.substr(0, line->value.size() - 1) + ", " + text.substr(1);
    else
      line->value = text;
    line->active = true;
    taken.push_back(section + "." + key);
  }
}

}  // namespace

std::string starter_spec(const StarterSpec& starter) {
  std::vector<Line> lines = usual_lines(starter);
  put(lines, starter.values);
  std::string text =
      "# `train-run validate` checks this file, `train-run` and its name run it. docs/spec.md\n"
      "# describes all keys; `train-run schema` gives editors completion.\n";
  if (!starter.made_from.empty())
    text += fmt::format("# It stands for {}\n", yaml::write_text(starter.made_from));
  text += "version: 1\n";
  std::string section;
  for (const Line& line : lines) {
    if (line.section != section && !line.section.empty())
      text += fmt::format("\n{}:\n", line.section);
    else if (line.section != section)
      text += "\n";
    section = line.section;
    std::string entry = fmt::format("{}{}{}: {}", section.empty() ? "" : "  ",
                                    line.active ? "" : "# ", line.key, line.value);
    if (!line.comment.empty())
      entry = fmt::format("{:<{}}  # {}", entry, kCommentColumn, line.comment);
    text += entry + "\n";
  }
  return text;
}

}  // namespace train
