// The files of the pages (assets/), which the build puts into the program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace train {

struct Asset {
  std::string_view path;  // below assets/: "index.html", "lib/dygraphs.js"
  std::string_view bytes;
};

/// Return all, sorted by path. The build generates this function's file.
const std::vector<Asset>& all_assets();

/// Return the asset, or nullptr.
const Asset* find_asset(std::string_view path);
/// Return its Content-Type by the ending of its path.
std::string content_type_of(std::string_view path);
/// Return its ETag, of its content.
std::string etag_of(const Asset& asset);

}  // namespace train
