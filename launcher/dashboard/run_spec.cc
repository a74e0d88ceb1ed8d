#include "launcher/dashboard/run_spec.h"

#include <utility>
#include <vector>

#include "launcher/spec/job_spec_parser.h"
#include "launcher/spec/resolved_yaml.h"
#include "launcher/spec/secrets.h"
#include "launcher/spec/shown_text.h"
#include "lib/base/host.h"
#include "lib/base/secrets.h"

namespace train {
namespace {

constexpr std::size_t kSpecBytesMax = 1u << 20;
constexpr std::size_t kFieldsMax = 5000;

struct Level {
  std::size_t indent = 0;
  std::string path = {};
  std::size_t items = 0;  // of a list below it
};

std::string unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"')
    text = text.substr(1, text.size() - 2);
  return std::string(text);
}

std::string joined(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

/// Split "key: value"; the value may be missing.
std::pair<std::string_view, std::string_view> split_line(std::string_view line) {
  const std::size_t from = line.starts_with('"') ? line.find('"', 1) : 0;
  const std::size_t colon = from == line.npos ? line.npos : line.find(':', from);
  if (colon == line.npos) return {line, {}};
  std::string_view value = line.substr(colon + 1);
  while (value.starts_with(' ')) value.remove_prefix(1);
  return {line.substr(0, colon), value};
}

}  // namespace

ShownSpec read_shown_spec(const FolderFiles& files) {
  ShownSpec shown;
  const auto given = files.read_whole("spec.yaml", kSpecBytesMax);
  if (given) shown.given = spec::shown_text(given->text).value_or("");
  const auto resolved = files.read_whole("spec.resolved.yaml", kSpecBytesMax);
  if (!resolved) return shown;
  SpecSource source;
  source.path = "spec.resolved.yaml";
  source.home = home_folder();
  auto parsed = parse_job_spec_text(resolved->text, source);
  if (auto* whole = std::get_if<ParsedSpec>(&parsed)) {
    shown.spec = std::move(whole->spec);
    shown.resolved = redacted(spec::resolved_yaml(spec::shown_spec(*shown.spec)));
  }
  return shown;
}

std::map<std::string, std::string> flat_fields(const std::string& yaml) {
  std::map<std::string, std::string> fields;
  std::vector<Level> levels{{}};
  for (std::size_t at = 0; at < yaml.size() && fields.size() < kFieldsMax;) {
    const std::size_t end = std::min(yaml.find('\n', at), yaml.size());
    std::string_view line = std::string_view(yaml).substr(at, end - at);
    at = end + 1;
    std::size_t indent = 0;
    while (indent < line.size() && line[indent] == ' ') ++indent;
    line.remove_prefix(indent);
    if (line.empty() || line.starts_with('#')) continue;
    while (levels.size() > 1 && indent < levels.back().indent) levels.pop_back();
    while (line.starts_with("- ")) {  // an item, and perhaps the first member of it
      const std::string path = joined(levels.back().path, std::to_string(levels.back().items++));
      line.remove_prefix(2);
      indent += 2;
      levels.push_back({.indent = indent, .path = path});
    }
    const auto [key, value] = split_line(line);
    const std::string path = joined(levels.back().path, unquoted(key));
    if (value.empty() && line.ends_with(':'))
      levels.push_back({.indent = indent + 1, .path = path});
    else if (value.empty())
      fields[levels.back().path] = unquoted(line);
    else
      fields[path] = unquoted(value);
  }
  return fields;
}

}  // namespace train
