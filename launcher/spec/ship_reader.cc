// Reads `ship`: which files of working_dir are sent to the nodes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/spec/kind_readers.h"
#include "launcher/spec/section_reader.h"
#include "lib/yaml/scalar.h"

namespace train::spec {
namespace {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

constexpr std::size_t kPatternsMax = 1000;
constexpr std::array<std::string_view, 2> kKeys{"files", "max"};

void read_patterns(const Cursor& cursor, ShipConfig& ship) {
  const std::vector<Cursor> items = cursor.items();
  if (cursor.node().is(Node::Kind::Sequence) && items.empty())
    return cursor.error("is empty", "name files and folders of working_dir, or write true");
  if (items.size() > kPatternsMax)
    return cursor.error(fmt::format("has {} patterns, and may have {}", items.size(), kPatternsMax),
                        "write true, and leave files out in .trainignore");
  for (const Cursor& item : items) {
    const auto pattern = item.text();
    if (!pattern) continue;
    std::string from_here = *pattern;  // ./src is /src
    const std::size_t dot = from_here.starts_with('!') ? 1 : 0;
    if (from_here.compare(dot, 2, "./") == 0) from_here.erase(dot, 1);
    const bool is_path = pattern->starts_with("../") || *pattern == "." || *pattern == "..";
    if (pattern->empty() || pattern->starts_with('#') || *pattern == "!" || from_here == "/" ||
        from_here == "!/" || is_path)
      item.error(fmt::format("is {}, which names no file of working_dir", in_quotes(*pattern)),
                 "write a pattern as in .gitignore, such as src or '*.py'");
    else
      ship.files.push_back(std::move(from_here));
  }
}

}  // namespace

void read_ship(Reading& reading, const Cursor& cursor, ShipConfig& ship) {
  ship = {};
  reading.remember(cursor);
  if (cursor.node().is(Node::Kind::Sequence)) {
    ship.on = true;
    return read_patterns(cursor, ship);
  }
  if (!cursor.node().is(Node::Kind::Map)) {
    if (const auto value = cursor.boolean()) ship.on = *value;
    return;
  }
  ship.on = true;
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (std::find(kKeys.begin(), kKeys.end(), entry.key) == kKeys.end()) {
      report_unknown_key(reading, entry.key_at, cursor.path(), entry.key, kKeys);
      continue;
    }
    if (entry.value.is_null()) continue;
    reading.remember(entry.value);
    if (entry.key == "files")
      read_patterns(entry.value, ship);
    else if (const auto bytes = entry.value.size())
      ship.bytes_max = *bytes;
  }
}

}  // namespace train::spec
