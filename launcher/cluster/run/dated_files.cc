#include "launcher/cluster/run/dated_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/time.h"
#include "lib/storage/new_folders.h"

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

/// Remove the oldest files of an ending so that the newest `kept` are left.
void keep_newest(FileSystem& files, const std::string& folder,
                 const std::vector<FolderEntry>& entries, const std::string& ending,
                 std::size_t kept) {
  std::vector<std::string> names;
  for (const FolderEntry& entry : entries)
    if (entry.kind == FileKind::File && is_ours(entry.name, ending)) names.push_back(entry.name);
  std::sort(names.begin(), names.end());
  for (std::size_t i = 0; i + kept < names.size(); ++i)
    (void)files.remove_file(join_path(folder, names[i]));
}

}  // namespace

std::string dated_stem(const std::string& folder, std::chrono::system_clock::time_point wall,
                       std::string_view what) {
  std::string name;
  for (const char c : format_utc(wall).substr(0, 23))
    if (c != '-' && c != ':') name += c == 'T' ? '-' : c;
  return join_path(folder, fmt::format("{}-{}", name, what));
}

Result<Unit> write_dated_files(FileSystem& files, const std::string& stem,
                               const std::vector<DatedFile>& all) {
  const std::string folder = stem.substr(0, stem.rfind('/'));
  TRY_VOID(make_folders(files, folder));
  if (const auto entries = files.list(folder))
    for (const DatedFile& file : all)
      keep_newest(files, folder, *entries, file.ending, kDatedFilesKept - 1);
  for (const DatedFile& file : all) {
    TRY_VOID(write_small_file(files, stem + file.ending, file.text));
  }
  return Unit{};
}

}  // namespace train
