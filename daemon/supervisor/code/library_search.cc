#include "daemon/supervisor/code/library_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <utility>

#include "lib/base/file_descriptor.h"
#include "lib/base/text_file.h"

namespace train {
namespace {

constexpr std::string_view kCacheMagic = "glibc-ld.so.cache1.1";
constexpr std::size_t kCacheHeadBytes = 48, kCacheEntryBytes = 24;
constexpr std::size_t kCacheEntriesMax = 100'000, kCacheBytesMax = 64u << 20;
constexpr std::size_t kFoldersMax = 256;

std::string from(const std::string& working_dir, const std::string& path) {
  if (path.starts_with('/') || working_dir.empty()) return path.empty() ? "." : path;
  return path.empty() ? working_dir : working_dir + "/" + path;
}

/// Return the folders of a list; an empty one is the working folder. An empty list has none.
std::vector<std::string> folders_in(std::string_view list, std::string_view separators) {
  std::vector<std::string> folders;
  for (bool more = !list.empty(); more && folders.size() < kFoldersMax;) {
    const std::size_t end = std::min(list.find_first_of(separators), list.size());
    folders.emplace_back(list.substr(0, end));
    more = end < list.size();
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return folders;
}

std::uint32_t number_at(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text[at + i]);
  return value;
}

std::string_view text_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return "";
  text.remove_prefix(at);
  return text.substr(0, text.find('\0'));
}

/// Replace $ORIGIN, or ${ORIGIN}, by the folder of the file that says it.
std::string with_origin(std::string path, const std::string& origin) {
  for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"}) {
    if (const std::size_t at = path.find(word); at != path.npos)
      path.replace(at, word.size(), origin);
  }
  return path;
}

std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

std::optional<DynamicFile> open_elf(const std::string& path) {
  const FileDescriptor file = open_regular(path);
  return file.get() < 0 ? std::nullopt : read_dynamic_file(file.get());
}

/// Return whether the file names folders by what only the linker knows ($LIB, $PLATFORM).
bool has_unknown_folders(const DynamicFile& elf) {
  const std::string all = elf.rpath + ":" + elf.runpath;
  return all.find("LIB}") != all.npos || all.find("$LIB") != all.npos ||
         all.find("PLATFORM") != all.npos;
}

class Loader {
 public:
  Loader(const LibraryPaths& paths, std::size_t max) : paths_(paths), max_(max) {}

  LoadedFiles load(const std::string& name, const std::string& path) {
    auto program = open_elf(path);
    // The kernel tells the linker where the program really is; a library's links are not followed.
    std::error_code unknown;
    const std::string real = std::filesystem::canonical(path, unknown).string();
    add(name, path, program ? *std::move(program) : DynamicFile{},
        {.origin = folder_of(unknown ? path : real), .rpaths = {}});
    // As the linker does: all that one file needs, then all that those need.
    for (std::size_t at = 0; at < found_.files.size(); ++at) {
      const LoadedFile file = found_.files[at];
      const Places places = places_[at];
      for (const std::string& needed : file.elf.needed) look_for(needed, file, places);
    }
    return std::move(found_);
  }

 private:
  using Folders = std::vector<std::string>;
  /// Where a file looks for what it needs.
  struct Places {
    std::string origin;  // its folder
    Folders rpaths;      // with those of its loaders
  };

  Folders folders_of(const std::string& list, const std::string& origin) const {
    Folders folders;
    for (const std::string& folder : folders_in(list, ":"))
      folders.push_back(from(paths_.working_dir, with_origin(folder, origin)));
    return folders;
  }

  /// `places` has the RPATHs of its loaders.
  void add(const std::string& name, const std::string& path, DynamicFile elf, Places places) {
    known_.insert(name);
    if (!elf.soname.empty()) known_.insert(elf.soname);
    // A file with a RUNPATH has no RPATH, but those of its loaders count below it.
    Folders& rpaths = places.rpaths;
    if (elf.runpath.empty()) {
      const Folders own = folders_of(elf.rpath, places.origin);
      rpaths.insert(rpaths.begin(), own.begin(), own.end());
    }
    if (rpaths.size() > kFoldersMax) rpaths.resize(kFoldersMax);
    found_.files.push_back({name, path, std::move(elf)});
    places_.push_back(std::move(places));
  }

  void look_for(const std::string& name, const LoadedFile& by, const Places& places) {
    if (known_.contains(name) || found_.files.size() >= max_) return;
    known_.insert(name);
    for (const std::string& path : candidates(name, by, places)) {
      auto elf = open_elf(path);
      if (!elf || elf->machine != found_.files.front().elf.machine) continue;
      return add(name, path, std::move(*elf), {.origin = folder_of(path), .rpaths = places.rpaths});
    }
    if (found_.missing.size() < max_ && !has_unknown_folders(by.elf))
      found_.missing.push_back({name, by.name});
  }

  std::vector<std::string> candidates(const std::string& name, const LoadedFile& by,
                                      const Places& places) const {
    if (name.find('/') != name.npos)
      return {from(paths_.working_dir, with_origin(name, places.origin))};
    std::vector<std::string> all;
    const auto below = [&](const Folders& folders) {
      for (const std::string& folder : folders) all.push_back(fmt::format("{}/{}", folder, name));
    };
    if (by.elf.runpath.empty()) below(places.rpaths);
    below(paths_.library_path);
    below(folders_of(by.elf.runpath, places.origin));
    if (const auto cached = paths_.cache.find(name); cached != paths_.cache.end())
      all.insert(all.end(), cached->second.begin(), cached->second.end());
    below(paths_.standard);
    return all;
  }

  const LibraryPaths& paths_;
  const std::size_t max_;
  LoadedFiles found_;
  std::vector<Places> places_;  // of each file
  std::set<std::string> known_;
};

}  // namespace

LibraryCache parse_library_cache(std::string_view text) {
  LibraryCache cache;
  const std::size_t begin = text.find(kCacheMagic);  // an older format may stand before it
  if (begin == text.npos || text.size() - begin < kCacheHeadBytes) return cache;
  text.remove_prefix(begin);
  const std::size_t count =
      std::min<std::size_t>(number_at(text, kCacheMagic.size()), kCacheEntriesMax);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t at = kCacheHeadBytes + i * kCacheEntryBytes;
    if (at + kCacheEntryBytes > text.size()) break;
    const std::string_view name = text_at(text, number_at(text, at + 4));
    const std::string_view path = text_at(text, number_at(text, at + 8));
    if (!name.empty() && path.starts_with('/')) cache[std::string(name)].emplace_back(path);
  }
  return cache;
}

LibraryPaths library_paths(const std::string& library_path, const std::string& working_dir) {
  LibraryPaths paths{.working_dir = working_dir};
  for (const std::string& folder : folders_in(library_path, ":;"))
    paths.library_path.push_back(from(working_dir, folder));
  std::error_code none;
  if (std::filesystem::file_size("/etc/ld.so.cache", none) <= kCacheBytesMax && !none)
    paths.cache = parse_library_cache(read_text("/etc/ld.so.cache"));
  paths.standard = {"/lib64", "/usr/lib64", "/lib", "/usr/lib"};
  for (const char* triple : {"x86_64-linux-gnu", "aarch64-linux-gnu"})
    for (const char* root : {"/lib/", "/usr/lib/"})
      paths.standard.push_back(root + std::string(triple));
  return paths;
}

LoadedFiles loaded_files(const std::string& name, const std::string& path,
                         const LibraryPaths& paths, std::size_t max) {
  return Loader(paths, max).load(name, path);
}

}  // namespace train
