#include "launcher/cluster/run/dated_files.h"

#include <algorithm>
#include <string_view>

#include "lib/base/time.h"

namespace train {
namespace {

bool is_ours(std::string_view name, std::string_view ending) {
  constexpr std::string_view kPattern = "00000000-000000.000-";
  if (name.size() <= kPattern.size() + ending.size() || !name.ends_with(ending)) return false;
  for (std::size_t i = 0; i < kPattern.size(); ++i) {
    const bool digit = name[i] >= '0' && name[i] <= '9';
    if (kPattern[i] == '0' ? !digit : name[i] != kPattern[i]) return false;
  }
  return true;
}

}  // namespace

std::string dated_name(std::chrono::system_clock::time_point wall) {
  std::string text;
  for (const char c : format_utc(wall).substr(0, 23))
    if (c != '-' && c != ':') text += c == 'T' ? '-' : c;
  return text;
}

void keep_newest(FileSystem& files, const std::string& folder,
                 const std::vector<std::string>& endings, std::size_t kept) {
  const auto entries = files.list(folder);
  for (const std::string& ending : endings) {
    std::vector<std::string> names;
    for (std::size_t i = 0; entries && i < entries->size(); ++i) {
      const FolderEntry& entry = (*entries)[i];
      if (entry.kind == FileKind::File && is_ours(entry.name, ending)) names.push_back(entry.name);
    }
    std::sort(names.begin(), names.end());
    for (std::size_t i = 0; i + kept < names.size(); ++i)
      (void)files.remove_file(join_path(folder, names[i]));
  }
}

}  // namespace train
