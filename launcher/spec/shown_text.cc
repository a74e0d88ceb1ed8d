#include "launcher/spec/shown_text.h"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "launcher/spec/secrets.h"
#include "lib/base/secrets.h"
#include "lib/yaml/reader.h"

namespace train::spec {
namespace {

/// Where the keys and values of a text begin, and which of these values are secret.
class Places {
 public:
  explicit Places(const std::string& text) {
    lines_.push_back(0);
    for (std::size_t end = text.find('\n'); end != text.npos; end = text.find('\n', end + 1))
      lines_.push_back(end + 1);
    end_ = text.size();
  }

  /// `name`: the nearest key above the node that names a secret, or "". `in_env`: it is a variable.
  void visit(const yaml::Node& node, const std::string& name, bool in_env) {
    if (!seen_.insert(&node).second) return;  // an alias
    begins_.insert(offset_of(node.at));
    if (node.is(yaml::Node::Kind::Scalar) && !name.empty() && !secret_reference(node.text)) {
      secrets_[offset_of(node.at)] = name;
      learn_secret(name, node.text);
    }
    for (const yaml::Node* item : node.items) visit(*item, name, in_env);
    for (const auto& [key, value] : node.entries) {
      begins_.insert(offset_of(key->at));
      const bool names = in_env ? may_name_a_secret(key->text) : names_a_secret_value(key->text);
      visit(*value, name.empty() && names ? key->text : name, in_env);
    }
  }
  void visit_root(const yaml::Node& root) {
    begins_.insert(offset_of(root.at));
    for (const auto& [key, value] : root.entries) {
      begins_.insert(offset_of(key->at));
      visit(*value, names_a_secret_value(key->text) ? key->text : "", key->text == "env");
    }
  }

  const std::map<std::size_t, std::string>& secrets() const { return secrets_; }
  /// Return where the next key or value after `begin` begins: what is there ends before it.
  std::size_t end_of(std::size_t begin) const {
    const auto next = begins_.upper_bound(begin);
    return next == begins_.end() ? end_ : *next;
  }

 private:
  std::size_t offset_of(const yaml::Position& at) const {
    const auto line = std::clamp<std::size_t>(static_cast<std::size_t>(at.line), 1, lines_.size());
    return std::min(lines_[line - 1] + static_cast<std::size_t>(std::max(at.column, 1) - 1), end_);
  }

  std::vector<std::size_t> lines_;  // where each begins
  std::size_t end_ = 0;
  std::set<const yaml::Node*> seen_;
  std::set<std::size_t> begins_;
  std::map<std::size_t, std::string> secrets_;  // where the value begins → its name
};

/// Return the end of what is hidden that separates it from what follows: brackets, a line end, and
/// how the next line is indented.
std::string_view end_kept(std::string_view hidden) {
  return hidden.substr(hidden.find_last_not_of(" ,]}\n") + 1);
}

std::string without_secret_values(const std::string& text, const Places& places) {
  std::string shown;
  std::size_t copied = 0;
  for (const auto& [begin, name] : places.secrets()) {
    if (begin < copied) continue;
    const std::size_t end = places.end_of(begin);
    shown.append(text, copied, begin - copied).append(redacted_mark(name));
    shown.append(end_kept(std::string_view(text).substr(begin, end - begin)));
    copied = end;
  }
  return shown.append(text, copied);
}

/// Return the line up to where its comment assigns something to a name that may name a secret.
std::string without_secret_comment(std::string_view line) {
  const std::size_t comment = line.find('#');
  if (comment == line.npos) return std::string(line);
  for (std::size_t sign = comment; (sign = line.find_first_of(":=", sign)) != line.npos; ++sign) {
    const std::size_t end = line.find_last_not_of(" \"'", sign == 0 ? 0 : sign - 1);
    if (end == line.npos || end <= comment) continue;
    const std::size_t begin = line.find_last_of(" \"'#,{", end);
    const std::string_view name = line.substr(begin + 1, end - begin);
    if (name.empty() || !may_name_a_secret(name)) continue;
    return std::string(line.substr(0, sign + 1)) + " " + redacted_mark(name);
  }
  return std::string(line);
}

}  // namespace

std::optional<std::string> shown_text(const std::string& yaml) {
  yaml::Tree tree;
  yaml::Diagnostics diagnostics;
  const yaml::Source& source = tree.add_source("spec.yaml", yaml);
  const yaml::Node* root = tree.parse(source, diagnostics);
  if (root == nullptr || diagnostics.has_errors()) return std::nullopt;
  Places places(source.text);
  places.visit_root(*root);
  const std::string text = without_secret_values(source.text, places);
  std::string shown;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    shown += without_secret_comment(std::string_view(text).substr(at, end - at));
    if (end < text.size()) shown += '\n';
    at = end + 1;
  }
  return redacted(shown);
}

}  // namespace train::spec
