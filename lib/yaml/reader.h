// This file reads YAML text into a tree of nodes that know their positions. It is the only user of
// yaml-cpp, and catches all of its exceptions.
//
// It is stricter than YAML where a spec needs it: one document, keys that are plain words and
// appear once, no tags, limits on size. Anchors, aliases and merges (`<<`) work. Aliased nodes are
// shared, but each use counts them with their text, so that an alias bomb is refused while it is
// read, before anything is expanded. Scalars stay text; the code that reads the tree interprets
// them (scalar.h, cursor.h).
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lib/yaml/diagnostics.h"

namespace train::yaml {

inline constexpr std::size_t kBytesMax = 1 << 20;  // of the text, and of all values after expansion
inline constexpr int kDepthMax = 32;               // of nested lists and mappings
inline constexpr int kNodesMax = 50'000;           // after expansion of aliases and merges
inline constexpr std::size_t kPathBytesMax = 1024;  // of the keys from the root to a value

struct Node {
  enum class Kind { Null, Scalar, Sequence, Map };
  struct Entry {
    const Node* key;
    const Node* value;
  };

  Kind kind = Kind::Null;
  bool quoted = false;  // a scalar in quotes or a block scalar: always text
  std::string text;     // of a scalar
  std::vector<const Node*> items;
  std::vector<Entry> entries;  // in the order of the text; all keys differ
  Position at;
  long expanded_nodes = 1;         // this one and all below it, with aliases expanded
  std::size_t expanded_bytes = 0;  // text of this one and all below it, with aliases expanded
  std::size_t path_bytes = 0;      // of the keys on the longest path to a value below
  int height = 0;                  // levels of lists and mappings, including this one

  bool is(Kind k) const { return kind == k; }
  const Node* find(std::string_view key) const;  // nullptr if there is none; maps only
};

/// Return "a mapping", "a list", "text" or "nothing".
std::string_view describe(Node::Kind kind);

/// Owns the sources and nodes of one parse. Several files and overrides can be merged in layers.
class Tree {
 public:
  /// Keep a text for parse(), without the byte order mark that some editors put before it: yaml-cpp
  /// does not count it in columns.
  const Source& add_source(std::string name, std::string text, int first_line = 1);

  /// Read `source` from byte `offset` of its first line on. Reports every mistake to `diagnostics`.
  /// Return nullptr if there is no tree.
  const Node* parse(const Source& source, Diagnostics& diagnostics, std::size_t offset = 0);

  /// Merge `above` into `below`: mappings merge key by key, and everything else is replaced. Either
  /// may be nullptr.
  const Node* merge(const Node* below, const Node* above);

  Node& add(Node node);

 private:
  std::deque<Source> sources_;
  std::deque<Node> nodes_;
};

}  // namespace train::yaml
