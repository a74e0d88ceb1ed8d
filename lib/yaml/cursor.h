// A typed cursor over a tree. It knows its path ("scaling_config.num_workers") and the node there.
// Each read returns a value, or reports one mistake that names the path, the value found and the
// value needed.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"
#include "lib/yaml/reader.h"

namespace train::yaml {

class Cursor {
 public:
  struct Entry;

  Cursor(const Node& node, std::string path, Diagnostics& diagnostics)
      : node_(&node), path_(std::move(path)), diagnostics_(&diagnostics) {}

  const Node& node() const { return *node_; }
  const Position& at() const { return node_->at; }
  const std::string& path() const { return path_; }
  Diagnostics& diagnostics() const { return *diagnostics_; }
  bool is_null() const { return node_->is(Node::Kind::Null); }

  std::optional<std::int64_t> integer(std::int64_t min, std::int64_t max) const;
  /// Return a finite number, `min` or more.
  std::optional<double> number(double min = std::numeric_limits<double>::lowest()) const;
  std::optional<bool> boolean() const;
  /// Return any scalar as written: a name may be 012, and an environment value may be true.
  std::optional<std::string> text() const;
  std::optional<Duration> duration(Duration min, Duration max) const;
  std::optional<std::uint64_t> size() const;
  /// Return the index of the text in `choices`.
  std::optional<std::size_t> choice(std::span<const std::string_view> choices) const;

  /// Return the entries of a mapping, in order. For anything else, report an error and return none.
  std::vector<Entry> entries() const;
  std::vector<Cursor> items() const;

  /// Report the error "<path> <what>" at this place.
  void error(std::string_view what, std::string hint = {}) const;

 private:
  /// Report the error `is "abc", not <needed>`.
  void wrong(std::string_view needed, std::string hint) const;
  const std::string* scalar(std::string_view needed, std::string hint) const;

  const Node* node_;
  std::string path_;
  Diagnostics* diagnostics_;
};

struct Cursor::Entry {
  std::string_view key;
  Position key_at;
  Cursor value;
};

/// Return "a.b", or "b" when `path` is empty.
std::string join_path(std::string_view path, std::string_view key);

/// Return "write one of: torch, none", or "did you mean torch? known are: …" if one is close.
std::string suggest(std::string_view found, std::span<const std::string_view> choices);

}  // namespace train::yaml
