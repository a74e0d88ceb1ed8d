#include "launcher/dashboard/assets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "lib/storage/digest.h"

namespace train {

const Asset* find_asset(std::string_view path) {
  const auto& all = all_assets();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const Asset& asset) { return asset.path == path; });
  return found == all.end() ? nullptr : &*found;
}

std::string content_type_of(std::string_view path) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kTypes{
      {{".html", "text/html; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".mjs", "text/javascript; charset=utf-8"},
       {".json", "application/json"},
       {".svg", "image/svg+xml"},
       {".png", "image/png"},
       {".ico", "image/x-icon"},
       {".woff2", "font/woff2"},
       {".webmanifest", "application/manifest+json"},
       {".yaml", "application/yaml"},
       {".txt", "text/plain; charset=utf-8"},
       {".log", "text/plain; charset=utf-8"}}};
  for (const auto& [ending, type] : kTypes)
    if (path.ends_with(ending)) return std::string(type);
  return "application/octet-stream";
}

std::string etag_of(const Asset& asset) {
  return fmt::format("\"{:016x}\"", digest64_of(asset.bytes));
}

}  // namespace train
