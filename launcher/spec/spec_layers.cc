#include "launcher/spec/spec_layers.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "launcher/spec/kind_readers.h"
#include "launcher/spec/spec_file.h"

namespace train::spec {
namespace {

using yaml::Node;

constexpr std::size_t kOverrideDepthMax = yaml::kDepthMax;

/// Return the path as the user knows the file: relative if the spec's own path is relative.
std::string beside(const std::string& spec_path, const std::string& name) {
  return (std::filesystem::path(spec_path).parent_path() / name).lexically_normal().string();
}

const Node* read_base(Reading& reading, yaml::Tree& tree, const Node& extends) {
  const yaml::Cursor cursor(extends, "extends", reading.diagnostics);
  auto name = cursor.text();
  if (!name) return nullptr;
  if (name->empty()) {
    cursor.error("is empty", "name a spec, or remove the key");
    return nullptr;
  }
  if (!expand_home(reading, cursor, *name)) return nullptr;
  const std::filesystem::path absolute =
      (std::filesystem::path(reading.spec_folder) / *name).lexically_normal();
  auto text = read_spec_file(absolute.string());
  const std::string shown = beside(reading.source.path, *name);
  if (text.has_error()) {
    std::string why = std::move(text).error().message;
    if (why.starts_with(absolute.string())) why.replace(0, absolute.string().size(), shown);
    cursor.error(fmt::format("names a spec that cannot be read: {}", why),
                 name->starts_with('/') ? "" : "the path is relative to this file");
    return nullptr;
  }
  const yaml::Source& source = tree.add_source(shown, std::move(*text));
  reading.folders[&source] = absolute.parent_path().string();
  const Node* base = tree.parse(source, reading.diagnostics);
  if (base == nullptr || base->is(Node::Kind::Null)) return nullptr;
  if (!base->is(Node::Kind::Map)) {
    reading.diagnostics.error(
        base->at, fmt::format("the spec is {}, not a mapping", yaml::describe(base->kind)),
        "write \"key: value\" lines");
    return nullptr;
  }
  if (const Node* further = base->find("extends")) {
    reading.diagnostics.error(
        further->at,
        fmt::format("extends is used in a spec that {} extends: only one level is allowed",
                    reading.source.path),
        "copy what is needed into one of the two");
  }
  return base;
}

const Node* one_key(yaml::Tree& tree, const yaml::Position& at, std::string key,
                    const Node* value) {
  Node name;
  name.kind = Node::Kind::Scalar;
  name.text = std::move(key);
  name.at = at;
  Node map;
  map.kind = Node::Kind::Map;
  map.at = at;
  map.entries.push_back({&tree.add(std::move(name)), value});
  return &tree.add(std::move(map));
}

/// Read "scaling_config.num_workers=4" as nested mappings. Each override is a line of a text that
/// is named by its option.
const Node* read_override(Reading& reading, yaml::Tree& tree, const SpecOverride& override,
                          int line) {
  const yaml::Source& source = tree.add_source(override.option, override.text, line);
  const std::string& text = source.text;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) {
    reading.diagnostics.error({&source, 1, static_cast<int>(text.size()) + 1},
                              "an override has no '='", "write key.path=value");
    return nullptr;
  }
  std::vector<std::pair<std::string, int>> keys;
  for (std::size_t at = 0; at <= equals;) {
    const std::size_t end = std::min(text.find('.', at), equals);
    keys.emplace_back(text.substr(at, end - at), static_cast<int>(at) + 1);
    if (keys.back().first.empty() || keys.size() > kOverrideDepthMax) {
      reading.diagnostics.error(
          {&source, 1, keys.back().second},
          keys.back().first.empty() ? "an override has an empty key" : "an override nests too deep",
          "write key.path=value");
      return nullptr;
    }
    at = end + 1;
  }
  if (keys[0].first == "extends") {
    reading.diagnostics.error({&source, 1, 1}, "extends is allowed only in the file",
                              "override single keys");
    return nullptr;
  }
  const Node* node = tree.parse(source, reading.diagnostics, equals + 1);
  for (auto key = keys.rbegin(); node != nullptr && key != keys.rend(); ++key) {
    node = one_key(tree, {&source, 1, key->second}, key->first, node);
  }
  return node;
}

}  // namespace

const Node* read_layers(Reading& reading, yaml::Tree& tree, const std::string& text) {
  const bool no_file = reading.source.path.empty();
  const yaml::Source& source =
      tree.add_source(no_file ? "the command line" : reading.source.path, text);
  reading.folders[&source] = reading.spec_folder;
  const Node* root = tree.parse(source, reading.diagnostics);
  const Node* base = nullptr;
  if (root != nullptr && root->is(Node::Kind::Map)) {
    if (const Node* extends = root->find("extends");
        extends != nullptr && !extends->is(Node::Kind::Null)) {
      base = read_base(reading, tree, *extends);
    }
  }
  const Node* merged = tree.merge(base, root);
  std::map<std::string, int> lines;  // of each option
  for (const SpecOverride& override : reading.source.overrides) {
    const Node* node = read_override(reading, tree, override, ++lines[override.option]);
    if (merged != nullptr && merged->is(Node::Kind::Null))
      merged = node == nullptr ? merged : node;
    else
      merged = merged == nullptr ? nullptr : tree.merge(merged, node);
  }
  return merged;
}

}  // namespace train::spec
