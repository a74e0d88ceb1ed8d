#include "lib/yaml/reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

#include "lib/yaml/explain.h"
#include "lib/yaml/prescan.h"

namespace train::yaml {
namespace {

/// Thrown through yaml-cpp to stop its recursion immediately; Tree::parse catches it.
struct Refusal {
  Diagnostic why;
};

class Builder final : public YAML::EventHandler {
 public:
  Builder(Tree& tree, const Source& source, Diagnostics& diagnostics, std::size_t offset)
      : tree_(tree), source_(source), diagnostics_(diagnostics), offset_(offset) {
    for (std::size_t at = source.text.find('\n'); at != std::string::npos;
         at = source.text.find('\n', at + 1)) {
      line_starts_.push_back(at + 1);
    }
  }

  const Node* root() const { return root_; }

  /// Return where the innermost list or mapping that is still open began.
  Position innermost(Node::Kind kind, const Position& otherwise) const {
    for (auto it = open_.rbegin(); it != open_.rend(); ++it) {
      if (it->node->is(kind)) return it->node->at;
    }
    return otherwise;
  }

  Position position(const YAML::Mark& mark) const {
    const int line = std::max(mark.line, 0);
    const int column = std::max(mark.column, 0) + (line == 0 ? static_cast<int>(offset_) : 0);
    return {&source_, line + 1, column + 1};
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 0) return;
    throw Refusal{{Severity::Error, position(mark),
                   "a second document begins here, or a line that does not fit the one above",
                   "keep one document, and indent its lines alike"}};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.at = position(mark);
    // yaml-cpp gives the place of the next token, but the user looks for the mistake at the key.
    if (const Node* key = pending_key(); key != nullptr && key->at.line != node.at.line)
      node.at = key->at;
    finish(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_tag(mark, tag);
    Node node;
    node.kind = Node::Kind::Scalar;
    node.quoted = tag == "!";
    node.text = value;
    node.at = position(mark);
    if (node.quoted) require_closing_quote(node.at);
    if (value.find('\0') != std::string::npos) {
      diagnostics_.error(node.at, "the text holds a NUL character", "remove it");
    }
    finish(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Position at = position(mark);
    const Node* target = anchor < anchors_.size() ? anchors_[anchor] : nullptr;
    if (target == nullptr) {
      throw Refusal{
          {Severity::Error, at, "this alias is inside the anchor that it names", "remove it"}};
    }
    if (static_cast<int>(open_.size()) + target->height > kDepthMax) throw too_deep(at);
    count(at, *target, "this alias expands the YAML past");
    attach(target, at);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::Sequence, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::Map, mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node* node = nullptr;
    YAML::anchor_t anchor = 0;
    const Node* key = nullptr;
    bool key_is_new = true;
    std::unordered_set<std::string_view> keys;
    std::vector<Node::Entry> merges;  // values of `<<`, with their keys
  };

  const Node* pending_key() const { return open_.empty() ? nullptr : open_.back().key; }

  Refusal too_deep(const Position& at) const {
    return {{Severity::Error, at, fmt::format("the YAML nests deeper than {} levels", kDepthMax),
             "flatten it"}};
  }

  void count(const Position& at, const Node& more, std::string_view what) {
    nodes_ += more.expanded_nodes;
    bytes_ += more.expanded_bytes;
    if (nodes_ <= kNodesMax && bytes_ <= kBytesMax) return;
    throw Refusal{{Severity::Error, at,
                   nodes_ > kNodesMax ? fmt::format("{} {} values", what, kNodesMax)
                                      : fmt::format("{} {} bytes of text", what, kBytesMax),
                   "keep data in files, and name them in the spec"}};
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    diagnostics_.error(position(mark), "tags are not supported",
                       "remove it: each key knows the type of its value");
  }

  /// Report a missing closing quote, because yaml-cpp accepts a quoted text that runs to the end of
  /// the file.
  void require_closing_quote(const Position& at) {
    std::string_view rest = source_.text;
    const auto line = std::min(static_cast<std::size_t>(at.line - 1), line_starts_.size() - 1);
    rest.remove_prefix(
        std::min(rest.size(), line_starts_[line] + static_cast<std::size_t>(at.column - 1)));
    while (rest.starts_with('&') || rest.starts_with('!')) {
      rest.remove_prefix(std::min(rest.size(), rest.find_first_of(" \t\r\n")));
      rest.remove_prefix(std::min(rest.size(), rest.find_first_not_of(" \t\r\n")));
    }
    if (!rest.starts_with('"') && !rest.starts_with('\'')) return;  // a block scalar
    const char quote = rest.front();
    for (std::size_t i = 1; i < rest.size(); ++i) {
      const bool doubled = quote == '\'' && rest.substr(i).starts_with("''");
      if (doubled || (quote == '"' && rest[i] == '\\')) {
        ++i;
      } else if (rest[i] == quote) {
        return;
      }
    }
    throw Refusal{{Severity::Error, at, "a quoted text is not closed",
                   fmt::format("add the missing {}", quote)}};
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    const Position at = position(mark);
    if (static_cast<int>(open_.size()) >= kDepthMax) throw too_deep(at);
    refuse_tag(mark, tag);
    Node node;
    node.kind = kind;
    node.at = at;
    count(at, node, "the YAML holds more than");
    open_.emplace_back();
    open_.back().node = &tree_.add(std::move(node));
    open_.back().anchor = anchor;
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    for (const Node::Entry& merge : done.merges) merge_into(done, merge);
    done.node->height += 1;
    remember(done.anchor, done.node);
    attach(done.node, done.node->at);
  }

  void finish(Node node, YAML::anchor_t anchor) {
    node.expanded_bytes = node.text.size();
    count(node.at, node, "the YAML holds more than");
    const Node& added = tree_.add(std::move(node));
    remember(anchor, &added);
    attach(&added, added.at);
  }

  void remember(YAML::anchor_t anchor, const Node* node) {
    if (anchor == 0) return;
    if (anchors_.size() <= anchor) anchors_.resize(anchor + 1);
    anchors_[anchor] = node;
  }

  void attach(const Node* node, const Position& at) {
    if (open_.empty()) {
      root_ = node;
      return;
    }
    Open& parent = open_.back();
    parent.node->expanded_nodes += node->expanded_nodes;
    parent.node->expanded_bytes += node->expanded_bytes;
    parent.node->height = std::max(parent.node->height, node->height);
    if (parent.node->is(Node::Kind::Sequence)) {
      parent.node->path_bytes = std::max(parent.node->path_bytes, node->path_bytes);
      parent.node->items.push_back(node);
    } else if (parent.key == nullptr) {
      begin_entry(parent, node, at);
    } else {
      end_entry(parent, node);
    }
  }

  void begin_entry(Open& map, const Node* key, const Position& at) {
    map.key = key;
    map.key_is_new = true;
    if (!key->is(Node::Kind::Scalar)) {
      diagnostics_.error(at, fmt::format("{} cannot be a key", describe(key->kind)), "use a word");
      map.key_is_new = false;
    } else if (key->text != "<<" || key->quoted) {
      map.key_is_new = map.keys.insert(key->text).second;
      if (!map.key_is_new) {
        report_duplicate(map, *key, at);
      }
    }
  }

  void report_duplicate(const Open& map, const Node& key, const Position& at) {
    if (diagnostics_.has_enough()) {  // only count it: the search below would take too long
      diagnostics_.error(at, "a key appears twice");
      return;
    }
    const auto first = std::find_if(map.node->entries.begin(), map.node->entries.end(),
                                    [&](const Node::Entry& e) { return e.key->text == key.text; });
    diagnostics_.error(at, fmt::format("the key {} appears twice", in_quotes(key.text)),
                       fmt::format("remove one; the first is on {}", first->key->at.seen_from(at)));
  }

  void end_entry(Open& map, const Node* value) {
    const Node* key = map.key;
    map.key = nullptr;
    const std::size_t path_bytes = key->text.size() + 1 + value->path_bytes;
    if (path_bytes > kPathBytesMax) {
      throw Refusal{{Severity::Error, key->at,
                     fmt::format("the keys from here to the innermost one have {} bytes, more than "
                                 "{}",
                                 path_bytes, kPathBytesMax),
                     "shorten them"}};
    }
    map.node->path_bytes = std::max(map.node->path_bytes, path_bytes);
    if (!map.key_is_new) return;
    if (key->text == "<<" && !key->quoted) {
      map.merges.push_back({key, value});
    } else {
      map.node->entries.push_back({key, value});
    }
  }

  /// Merge into a mapping. The mapping's own keys win over merged ones, and earlier merges win over
  /// later ones (YAML's merge key type).
  void merge_into(Open& map, const Node::Entry& merge) {
    const auto take = [&](const Node* from) {
      if (!from->is(Node::Kind::Map)) {
        diagnostics_.error(
            merge.key->at,
            fmt::format("'<<' merges a mapping, and this is {}", describe(from->kind)),
            "name an anchor of a mapping");
        return;
      }
      for (const Node::Entry& entry : from->entries) {
        if (map.keys.insert(entry.key->text).second) map.node->entries.push_back(entry);
      }
    };
    if (merge.value->is(Node::Kind::Sequence)) {
      for (const Node* item : merge.value->items) take(item);
    } else {
      take(merge.value);
    }
  }

  Tree& tree_;
  const Source& source_;
  Diagnostics& diagnostics_;
  std::size_t offset_;
  std::vector<Open> open_;
  std::vector<const Node*> anchors_;
  const Node* root_ = nullptr;
  std::vector<std::size_t> line_starts_{0};
  long nodes_ = 0;
  std::size_t bytes_ = 0;
  int documents_ = 0;
};

}  // namespace

const Node* Node::find(std::string_view key) const {
  for (const Entry& entry : entries) {
    if (entry.key->text == key) return entry.value;
  }
  return nullptr;
}

std::string_view describe(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::Null:
      return "nothing";
    case Node::Kind::Scalar:
      return "text";
    case Node::Kind::Sequence:
      return "a list";
    case Node::Kind::Map:
      return "a mapping";
  }
  return "";
}

const Source& Tree::add_source(std::string name, std::string text, int first_line) {
  if (constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF"; text.starts_with(kByteOrderMark))
    text.erase(0, kByteOrderMark.size());
  sources_.push_back(
      {std::move(name), std::move(text), first_line, static_cast<int>(sources_.size())});
  return sources_.back();
}

Node& Tree::add(Node node) {
  nodes_.push_back(std::move(node));
  return nodes_.back();
}

const Node* Tree::parse(const Source& source, Diagnostics& diagnostics, std::size_t offset) {
  const std::string_view text = std::string_view(source.text).substr(offset);
  if (auto refused = prescan(source, text)) {
    if (refused->at.line == 1) refused->at.column += static_cast<int>(offset);
    diagnostics.error(refused->at, std::move(refused->message), std::move(refused->hint));
    return nullptr;
  }
  Builder builder(*this, source, diagnostics, offset);
  try {
    std::istringstream in{std::string(text)};
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Refusal& refused) {
    diagnostics.error(refused.why.at, refused.why.message, refused.why.hint);
    return nullptr;
  } catch (const YAML::Exception& e) {
    Position at = builder.position(e.mark);
    if (e.msg == kUnclosedList) at = builder.innermost(Node::Kind::Sequence, at);
    if (e.msg == kUnclosedMap) at = builder.innermost(Node::Kind::Map, at);
    Diagnostic why = explain(at, e.msg);
    diagnostics.error(why.at, std::move(why.message), std::move(why.hint));
    return nullptr;
  }
  if (builder.root() != nullptr) return builder.root();
  Node nothing;
  nothing.at = {&source, 1, 1 + static_cast<int>(offset)};
  return &add(std::move(nothing));
}

const Node* Tree::merge(const Node* below, const Node* above) {
  if (above == nullptr) return below;
  if (below == nullptr || !below->is(Node::Kind::Map) || !above->is(Node::Kind::Map)) return above;
  Node merged;
  merged.kind = Node::Kind::Map;
  merged.at = above->at;
  merged.entries = below->entries;
  std::unordered_map<std::string_view, std::size_t> index;
  for (std::size_t i = 0; i < below->entries.size(); ++i)
    index.emplace(below->entries[i].key->text, i);
  for (const Node::Entry& entry : above->entries) {
    const auto same = index.find(entry.key->text);
    if (same == index.end()) {
      merged.entries.push_back(entry);
    } else {
      merged.entries[same->second] = {entry.key,
                                      merge(merged.entries[same->second].value, entry.value)};
    }
  }
  return &add(std::move(merged));
}

}  // namespace train::yaml
