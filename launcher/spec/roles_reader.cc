// Reads roles: a list of workers with a program of their own each. The first is the one that
// trains, and its keys are other places for those at the top of the spec.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "launcher/spec/fields.h"
#include "launcher/spec/kind_readers.h"
#include "launcher/spec/secrets.h"
#include "launcher/spec/section_reader.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

/// A key of the first role, and the key of the spec that it stands for.
struct Place {
  std::string_view key, path;
};
constexpr std::array kOfFirst{Place{"command", "command"},
                              Place{"num_workers", "scaling_config.num_workers"},
                              Place{"use_gpu", "scaling_config.use_gpu"},
                              Place{"resources_per_worker", "scaling_config.resources_per_worker"}};
constexpr std::array<std::string_view, 5> kFirstKeys{"name", "command", "num_workers", "use_gpu",
                                                     "resources_per_worker"};
constexpr std::array<std::string_view, 7> kOtherKeys{
    "name", "command", "num_workers", "use_gpu", "resources_per_worker", "env", "label_selector"};

bool is_option(const Origin& origin) {
  return origin.at.source != nullptr && origin.at.source->name.starts_with("-");
}

/// Read the role's name. Each is the only one of its name.
void read_role_name(const Cursor& cursor, std::string& name, std::set<std::string>& names) {
  auto text = cursor.text();
  if (!text) return;
  if (!is_name(*text))
    return cursor.error(
        fmt::format("is {}, which is no name of a role", in_quotes(*text)),
        "use letters, digits, '.', '_' and '-', at most 128, a letter or digit first");
  if (!names.insert(*text).second)
    return cursor.error(fmt::format("is {}, as another role's", *text), "choose another name");
  name = std::move(*text);
}

/// Let what was read at `from`, and below it, count as given at `to`.
void move_origins(Reading& reading, const std::string& from, std::string_view to) {
  const std::map<std::string, Origin, std::less<>> before = reading.origins;
  for (auto at = before.lower_bound(from); at != before.end() && at->first.starts_with(from); ++at)
    reading.origins[std::string(to) + at->first.substr(from.size())] = at->second;
}

void read_first(Reading& reading, const Cursor& cursor, ScalingConfig& scaling,
                const ReadAt& read_at, std::set<std::string>& names) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    const auto* place = std::find_if(kOfFirst.begin(), kOfFirst.end(),
                                     [&](const Place& one) { return one.key == entry.key; });
    if (entry.key == "name") {
      read_role_name(entry.value, scaling.role, names);
    } else if (place == kOfFirst.end()) {
      const bool of_others =
          std::find(kOtherKeys.begin(), kOtherKeys.end(), entry.key) != kOtherKeys.end();
      if (!of_others) {
        report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kFirstKeys);
        continue;
      }
      reading.diagnostics.error(
          entry.key_at, fmt::format("{} is of the first role", entry.value.path()),
          entry.key == "env" ? "write env at the top of the spec: it is for all roles, and each of "
                               "the others may have more"
                             : "write scaling_config.label_selector");
    } else if (const Origin* given = reading.given(place->path);
               given != nullptr && is_option(*given)) {
      continue;  // -n 4, or --set: it counts more
    } else if (given != nullptr) {
      reading.diagnostics.error(
          entry.key_at, fmt::format("{} is given, and {}, too", entry.value.path(), place->path),
          fmt::format("remove one of them; the other is on {}", given->at.seen_from(entry.key_at)));
    } else if (!entry.value.is_null()) {
      read_at(place->path, entry.key_at, entry.value);
      move_origins(reading, entry.value.path(), place->path);
    }
  }
}

void read_gpu(const Cursor& cursor, bool use_gpu, bool gives_resources, Resources& resources) {
  double& gpu = resources.gpu;
  if (use_gpu && gpu == 0) gpu = 1;
  if (gives_resources && gpu != std::floor(gpu))
    cursor.error(fmt::format("has GPU {:g}", gpu),
                 "give workers of this role whole GPUs: only those of the first role share them");
}

void read_other(Reading& reading, const Cursor& cursor, RoleSpec& role,
                std::set<std::string>& names) {
  bool use_gpu = false, has_name = false;
  for (const Cursor::Entry& entry : cursor.entries()) {
    const Cursor& value = entry.value;
    if (std::find(kOtherKeys.begin(), kOtherKeys.end(), entry.key) == kOtherKeys.end()) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kOtherKeys);
    } else if (value.is_null()) {
      continue;
    } else if (entry.key == "name") {
      has_name = true;
      read_role_name(value, role.name, names);
    } else if (entry.key == "command") {
      read_command(reading, value, role.command);
    } else if (entry.key == "num_workers") {
      if (const auto count = value.integer(1, kWorkersMax)) role.workers = static_cast<int>(*count);
    } else if (entry.key == "use_gpu") {
      use_gpu = value.boolean().value_or(false);
    } else if (entry.key == "resources_per_worker") {
      read_resources(reading, value, role.resources_per_worker);
    } else if (entry.key == "label_selector") {
      std::vector<LabelSelector> selectors;
      if (!value.node().is(Node::Kind::Map))
        value.error("is no mapping", "write {gpu: H100}, for all workers of the role");
      else
        read_labels(reading, value, selectors);
      if (!selectors.empty()) role.label_selector = std::move(selectors.front());
    } else {
      read_environment(reading, value, role.env);
      if (role.env.contains("ROLE_NAME"))
        value.error("sets ROLE_NAME, which is the role's name", "remove it");
      for (const auto& [name, text] : role.env)
        if (secret_reference(text))
          value.error(fmt::format("has a secret for {}", name),
                      "write it into env at the top of the spec, which is for all roles");
    }
  }
  read_gpu(cursor, use_gpu, true, role.resources_per_worker);
  if (!has_name) cursor.error("has no name", "add name: reader");
  if (role.command.empty()) cursor.error("has no command", "add command: [./reader]");
}

}  // namespace

void read_roles(Reading& reading, const Cursor& cursor, ScalingConfig& scaling,
                const ReadAt& read_at) {
  scaling.other_roles.clear();
  const std::vector<Cursor> items = cursor.items();
  if (items.size() > kRolesMax)
    return cursor.error(fmt::format("has {} roles, and may have {}", items.size(), kRolesMax),
                        "let a role have more workers");
  std::set<std::string> names;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (!items[i].node().is(Node::Kind::Map)) {
      items[i].error(fmt::format("is {}, not a mapping", yaml::describe(items[i].node().kind)),
                     "write {name: reader, command: [./reader], num_workers: 2}");
    } else if (i == 0) {
      read_first(reading, items[i], scaling, read_at, names);
      if (names.empty() && items.size() > 1) items[i].error("has no name", "add name: trainer");
    } else {
      read_other(reading, items[i], scaling.other_roles.emplace_back(), names);
    }
  }
}

}  // namespace train::spec
