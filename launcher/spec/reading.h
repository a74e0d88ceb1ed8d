// The state that the parts of one parse share: where mistakes go, where relative paths start, and
// where each value came from.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/core/search/search_spec.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/yaml/cursor.h"
#include "lib/yaml/diagnostics.h"

namespace train::spec {

struct Origin {
  yaml::Position at;
  std::string variable;  // environment variables that supplied it, or a part of it
};

struct Reading {
  const SpecSource& source;
  yaml::Diagnostics& diagnostics;
  /// Absolute folders: where a source's relative paths start.
  std::map<const yaml::Source*, std::string> folders;
  std::string spec_folder;                             // the main file's, also for --set
  std::map<std::string, Origin, std::less<>> origins;  // path → where; none: a default
  std::size_t interpolated_bytes = 0;                  // in all texts that contained "${"
  std::optional<SearchSpec> sweep = {};                // the section of that name

  const Origin* given(std::string_view path) const {
    const auto it = origins.find(path);
    return it == origins.end() ? nullptr : &it->second;
  }
  const std::string& folder_of(const yaml::Position& at) const {
    const auto it = folders.find(at.source);
    return it == folders.end() ? spec_folder : it->second;
  }
  void remember(const yaml::Cursor& cursor) { origins[cursor.path()] = {cursor.at(), {}}; }
};

}  // namespace train::spec
