// Reads kinds that are texts or lists of them: names, paths, the command, the environment, lists,
// node addresses.
#include <fmt/format.h>
#include <sys/un.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "launcher/core/ssh_hosts.h"
#include "launcher/spec/fields.h"
#include "launcher/spec/interpolate.h"
#include "launcher/spec/kind_readers.h"
#include "launcher/spec/secrets.h"
#include "lib/base/secrets.h"
#include "lib/base/store_url.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;

/// Return the position of the wrong part of a scalar in the source, or the position of the scalar
/// itself if quoting or folding hides that part.
yaml::Position location_of(const Cursor& cursor, std::string_view part) {
  yaml::Position at = cursor.at();
  if (at.source == nullptr || cursor.diagnostics().has_enough()) return at;
  std::string_view rest = at.source->text;
  for (int line = 1; line < at.line; ++line)
    rest.remove_prefix(std::min(rest.size(), rest.find('\n') + 1));
  rest = rest.substr(0, rest.find('\n'));
  const std::string_view word = part.substr(0, std::min(part.find('}'), part.size()));
  const std::size_t found = rest.find(word, static_cast<std::size_t>(at.column - 1));
  if (!word.empty() && found != std::string_view::npos) at.column = static_cast<int>(found) + 1;
  return at;
}

std::string absolute_path(const std::string& path, const std::string& folder) {
  std::string normal = (std::filesystem::path(folder) / path).lexically_normal().string();
  while (normal.size() > 1 && normal.ends_with('/')) normal.pop_back();
  return normal;
}

}  // namespace

void read_reference(Reading& reading, const Cursor& cursor, std::string& value) {
  const auto reference = secret_reference(value);
  if (!reference) return;
  if (reference->from == SecretReference::From::Environment) {
    if (!is_environment_name(reference->target)) {
      cursor.error(fmt::format("is {}, which is not a variable name", in_quotes(value)),
                   "write env:NAME");
    }
    return;
  }
  if (reference->target.empty())
    return cursor.error("is \"file:\" without a path", "write file:PATH");
  std::string path = reference->target;
  if (!expand_home(reading, cursor, path)) return;
  value = "file:" + absolute_path(path, reading.folder_of(cursor.at()));
}

std::optional<std::string> read_interpolated(Reading& reading, const Cursor& cursor) {
  const auto text = cursor.text();
  if (!text) return {};
  Interpolated result =
      interpolate(*text, reading.source.environment, yaml::kBytesMax - reading.interpolated_bytes);
  if (!result.used.empty()) {
    reading.interpolated_bytes =
        std::min(yaml::kBytesMax, reading.interpolated_bytes + result.text.size());
  }
  if (!result.mistake.empty()) {
    reading.diagnostics.error(location_of(cursor, result.where),
                              fmt::format("{} {}", cursor.path(), result.mistake),
                              std::move(result.hint));
    return {};
  }
  for (const std::string& name : result.used) {
    if (!names_a_secret(name)) continue;
    reading.diagnostics.error(
        location_of(cursor, fmt::format("${{{}", name)),
        fmt::format("{} would hold the secret {} in the clear", cursor.path(), name),
        fmt::format("give it to the workers in env, as env:{}", name));
  }
  // The variables of a list item are recorded at the list, which is one line of the printed spec.
  const std::string path = cursor.path().substr(0, cursor.path().find('['));
  for (const std::string& name : result.used) {
    Origin& origin = reading.origins[path];
    if (origin.at.source == nullptr) origin.at = cursor.at();
    if (origin.variable.find(name) == std::string::npos)
      origin.variable += (origin.variable.empty() ? "" : ", ") + name;
  }
  return std::move(result.text);
}

std::optional<std::string> read_name(Reading& reading, const Cursor& cursor) {
  auto name = read_interpolated(reading, cursor);
  if (!name) return {};
  if (!is_name(*name)) {
    cursor.error(fmt::format("is {}, which cannot name a run", in_quotes(*name)),
                 "use letters, digits, '.', '_' and '-', at most 128, a letter or digit first");
    return {};
  }
  return name;
}

bool expand_home(const Reading& reading, const Cursor& cursor, std::string& path) {
  if (!path.starts_with('~')) return true;
  if (path.size() > 1 && path[1] != '/') {
    cursor.error(
        fmt::format("is {}: only ~/ is supported, not another user's home", in_quotes(path)),
        "write the full path");
    return false;
  }
  if (reading.source.home.empty()) {
    cursor.error(fmt::format("is {}, and HOME is not set", in_quotes(path)),
                 "set HOME, or write the full path");
    return false;
  }
  path.replace(0, 1, reading.source.home);
  return true;
}

std::optional<std::string> read_path(Reading& reading, const Cursor& cursor) {
  auto path = read_interpolated(reading, cursor);
  if (!path) return {};
  if (path->empty()) {
    cursor.error("is empty", "write a path, or remove the key");
    return {};
  }
  if (const std::size_t scheme = path->find("://"); scheme != std::string::npos) {
    cursor.error(
        fmt::format("is {}: {}:// is not supported by this version yet", in_quotes(*path),
                    path->substr(0, scheme)),
        "name a folder or file, local or NFS (storage_path: s3://, gs:// and hdfs:// too)");
    return {};
  }
  if (!expand_home(reading, cursor, *path)) return {};
  return absolute_path(*path, reading.folder_of(cursor.at()));
}

namespace {

/// Return what is wrong with the URL of a dataset's files, or "". Unlike what names a run's folder,
/// it may be a pattern.
std::string_view mistake_in_pattern(const StoreScheme& scheme, std::string_view url) {
  const std::string_view rest = url.substr(scheme.prefix.size());
  const std::string_view place = rest.substr(0, rest.find('/'));
  if (scheme.names_bucket && place.empty()) return "names no bucket";
  if (!scheme.names_bucket && place.size() == rest.size()) return "names no folder";
  if (place.find_first_of("*?[{") != std::string_view::npos) return "has a pattern for its bucket";
  return {};
}

std::optional<std::string> read_data_path(Reading& reading, const Cursor& cursor) {
  auto path = read_interpolated(reading, cursor);
  if (!path) return {};
  const std::size_t colon = path->find("://");
  if (colon == std::string::npos) return read_path(reading, cursor);
  const StoreScheme* scheme = store_scheme(*path);
  if (scheme == nullptr) {
    cursor.error(fmt::format("is {}: {}:// is not supported by this version yet", in_quotes(*path),
                             path->substr(0, colon)),
                 "name a file, a folder or a glob, local, NFS, s3://, gs:// or hdfs://");
    return {};
  }
  const std::string_view mistake = mistake_in_pattern(*scheme, *path);
  if (mistake.empty()) return path;
  cursor.error(fmt::format("is {}, which {}", in_quotes(*path), mistake), std::string(scheme->how));
  return {};
}

}  // namespace

void read_paths(Reading& reading, const Cursor& cursor, std::vector<std::string>& paths) {
  if (!cursor.node().is(yaml::Node::Kind::Sequence)) {
    if (auto path = read_data_path(reading, cursor)) paths = {std::move(*path)};
    return;
  }
  const std::vector<Cursor> items = cursor.items();
  if (items.empty()) return cursor.error("is empty", "write a path, or remove the key");
  paths.clear();
  for (const Cursor& item : items) {
    auto path = read_data_path(reading, item);
    if (!path) continue;
    if (std::find(paths.begin(), paths.end(), *path) != paths.end()) {
      item.error(fmt::format("names {} again", in_quotes(*path)), "remove it");
      continue;
    }
    paths.push_back(std::move(*path));
  }
}

std::optional<std::string> read_storage(Reading& reading, const Cursor& cursor) {
  auto location = read_interpolated(reading, cursor);
  if (!location) return {};
  const StoreScheme* scheme = store_scheme(*location);
  if (scheme == nullptr) return read_path(reading, cursor);
  while (location->ends_with('/') && location->size() > scheme->prefix.size()) location->pop_back();
  const std::string_view mistake = mistake_in(*scheme, *location);
  if (mistake.empty()) return location;
  cursor.error(fmt::format("is {}, which {}", in_quotes(*location), mistake),
               std::string(scheme->how));
  return {};
}

void read_command(Reading& reading, const Cursor& cursor, std::vector<std::string>& argv) {
  constexpr std::string_view kHint =
      "write the program and its arguments, such as [./train, --verbose]";
  if (cursor.node().is(yaml::Node::Kind::Scalar)) {
    const auto line = cursor.text();
    if (line->find_first_not_of(" \t\r\n") == std::string::npos)
      return cursor.error("is empty", std::string(kHint));
    argv = {"/bin/sh", "-c", *line};
    return;
  }
  const std::vector<Cursor> items = cursor.items();
  if (cursor.node().is(yaml::Node::Kind::Sequence) && items.empty())
    cursor.error("is empty", std::string(kHint));
  argv.clear();
  for (const Cursor& item : items) {
    if (auto text = read_interpolated(reading, item)) argv.push_back(std::move(*text));
  }
  if (argv.size() == items.size() && !argv.empty() && argv[0].empty())
    items[0].error("is empty", "name the program");
}

void read_argv(Reading& reading, const Cursor& cursor, std::string_view example,
               std::vector<std::string>& argv) {
  if (cursor.node().is(yaml::Node::Kind::Scalar))
    return cursor.error(fmt::format("is {}, not a list", in_quotes(cursor.node().text)),
                        fmt::format("write the program and its arguments, such as {}", example));
  read_command(reading, cursor, argv);
}

void read_commands(Reading& reading, const Cursor& cursor, const Field& field,
                   std::vector<std::vector<std::string>>& commands) {
  commands.clear();
  if (cursor.node().is(yaml::Node::Kind::Scalar))
    return cursor.error(fmt::format("is {}, not a list", in_quotes(cursor.node().text)),
                        "write a list of commands, such as [./download.sh]");
  const std::vector<Cursor> items = cursor.items();
  if (std::cmp_greater(items.size(), field.max))
    return cursor.error(fmt::format("has {} items, and may have {}", items.size(), field.max),
                        "put some of them into a script");
  for (const Cursor& item : items) {
    // A list of words looks like one command.
    if (item.node().is(yaml::Node::Kind::Scalar) && item.node().text.starts_with('-')) {
      item.error(fmt::format("is {}, which is no command", in_quotes(item.node().text)),
                 "write each command with its arguments as a list in the list, such as "
                 "[[./prepare.sh, --fast]]");
      continue;
    }
    if (item.is_null()) {
      item.error("is empty", "write a command, or remove it");
      continue;
    }
    read_command(reading, item, commands.emplace_back());
  }
}

void read_environment(Reading& reading, const Cursor& cursor,
                      std::map<std::string, std::string>& env) {
  const auto reserved = reserved_environment();
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (!is_environment_name(entry.key)) {
      reading.diagnostics.error(entry.key_at,
                                fmt::format("{} cannot name a variable", in_quotes(entry.key)),
                                "use letters, digits and '_', no digit first");
      continue;
    }
    if (std::find(reserved.begin(), reserved.end(), entry.key) != reserved.end()) {
      reading.diagnostics.error(
          entry.key_at, fmt::format("{} is set by train-run for each worker", entry.value.path()),
          "remove it");
      continue;
    }
    if (entry.value.is_null()) {
      entry.value.error("is null", "write a text; \"\" is an empty one");
      continue;
    }
    auto value = read_interpolated(reading, entry.value);
    if (!value) continue;
    if (reading.given(entry.value.path()) == nullptr) reading.remember(entry.value);
    read_reference(reading, entry.value, *value);
    if (names_a_secret(entry.key) && !secret_reference(*value) && !value->empty()) {
      reading.diagnostics.warning(
          entry.value.at(),
          fmt::format(
              "{} looks like a secret, and will be stored in plain text in the run's folder",
              entry.value.path()),
          fmt::format("write env:{} or file:PATH", entry.key));
    }
    env[std::string(entry.key)] = std::move(*value);
  }
}

void read_list(const Cursor& cursor, const Field& field, std::vector<std::string>& list) {
  list.clear();
  for (const Cursor& item : cursor.items()) {
    std::optional<std::string> word;
    if (field.kind == Kind::ChoiceList) {
      if (const auto index = item.choice(field.choices)) word = field.choices[*index];
    } else {
      word = item.text();
      if (word && word->empty()) item.error("is empty", "remove it");
    }
    if (!word) continue;
    if (std::find(list.begin(), list.end(), *word) != list.end()) {
      item.error(fmt::format("names {} again", in_quotes(*word)), "remove it");
    } else {
      list.push_back(std::move(*word));
    }
  }
}

std::string node_address_mistake(std::string_view address) {
  if (constexpr std::string_view kUnix = "unix:"; address.starts_with(kUnix)) {
    const std::size_t bytes = address.size() - kUnix.size();
    if (bytes == 0 || address[kUnix.size()] != '/') return "has no absolute path";
    return bytes < sizeof sockaddr_un{}.sun_path ? "" : "has a path too long for a socket";
  }
  if (address.starts_with(kSshPrefix)) {
    const auto host = parse_ssh_host(address.substr(kSshPrefix.size()));
    return host ? "" : host.error().message;
  }
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return "has no port";
  const std::string_view host = address.substr(0, colon);
  const std::string_view port = address.substr(colon + 1);
  const bool v6 = host.starts_with('[') && host.ends_with(']') && host.size() > 2;
  if (host.empty() || host.find_first_of(" \t/@") != std::string_view::npos) return "has no host";
  if (!v6 && host.find_first_of(":[]") != std::string_view::npos)
    return "has an IPv6 address without brackets";
  unsigned number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || number < 1 || number > 65535) {
    return "has no port from 1 to 65535";
  }
  return {};
}

void read_nodes(Reading& reading, const Cursor& cursor, std::vector<std::string>& nodes) {
  nodes.clear();
  for (const Cursor& item : cursor.items()) {
    auto address = read_interpolated(reading, item);
    if (!address) continue;
    if (const std::string mistake = node_address_mistake(*address); !mistake.empty()) {
      item.error(fmt::format("is {}, which {}", in_quotes(*address), mistake),
                 "write host:port, such as gpu-1:7070, unix:/PATH or ssh:HOST");
    } else if (std::find(nodes.begin(), nodes.end(), *address) != nodes.end()) {
      item.error(fmt::format("names {} again", in_quotes(*address)), "remove it");
    } else {
      nodes.push_back(std::move(*address));
    }
  }
}

}  // namespace train::spec
