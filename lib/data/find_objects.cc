#include "lib/data/find_objects.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>

#include "lib/data/brace_ranges.h"
#include "lib/data/file_names.h"

namespace train::data {
namespace {

using Objects = std::vector<ObjectStatus>;

constexpr std::string_view kPatterns = "*?[{";  // also ranges

/// Return whether an object belongs to a folder's dataset, from its key below that folder.
bool is_wanted(std::string_view below, FileFormat format) {
  std::size_t begin = 0;
  while (true) {
    const std::size_t slash = below.find('/', begin);
    // The name of what some tools put as a folder's mark is empty.
    if (is_hidden_name(below.substr(begin, slash - begin))) return false;
    if (slash == std::string_view::npos) return belongs(below.substr(begin), format);
    begin = slash + 1;
  }
}

/// Return the first object whose key is not before `key`.
Objects::const_iterator at(const Objects& listed, const std::string& key) {
  return std::lower_bound(
      listed.begin(), listed.end(), key,
      [](const ObjectStatus& one, const std::string& k) { return one.key < k; });
}

/// Return the objects below a folder, whose key ends in '/' or is "".
Result<Objects> objects_below(const Objects& listed, const std::string& root,
                              const std::string& folder, FileFormat format) {
  Objects objects;
  for (auto one = at(listed, folder); one != listed.end() && one->key.starts_with(folder); ++one) {
    if (is_wanted(std::string_view(one->key).substr(folder.size()), format))
      objects.push_back(*one);
  }
  if (objects.empty()) return no_files_in(root + folder, format);
  return objects;
}

std::size_t fixed_bytes(const std::string& key) {
  return std::min(key.find_first_of(kPatterns), key.size());
}

}  // namespace

Result<Objects> choose_objects(const Objects& listed, const std::string& root,
                               const std::string& key, FileFormat format) {
  const auto exact = at(listed, key);
  const bool is_folder_name = key.empty() || key.ends_with('/');
  if (!is_folder_name && exact != listed.end() && exact->key == key) return Objects{*exact};
  const std::string folder = is_folder_name ? key : key + "/";
  const auto inside = at(listed, folder);
  if (inside != listed.end() && inside->key.starts_with(folder))
    return objects_below(listed, root, folder, format);
  TRY(const auto numbered, expand_ranges(key));
  if (numbered.size() > 1 || numbered.front() != key) {
    Objects objects;
    for (const std::string& one : numbered) {
      TRY(const auto found, choose_objects(listed, root, one, format));
      objects.insert(objects.end(), found.begin(), found.end());
    }
    return objects;
  }
  if (key.find_first_of(kWildcards) == std::string::npos) return missing(root + key);
  Objects objects;
  const std::string begin = key.substr(0, fixed_bytes(key));
  for (auto one = at(listed, begin); one != listed.end() && one->key.starts_with(begin); ++one) {
    if (::fnmatch(key.c_str(), one->key.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0)
      objects.push_back(*one);
  }
  if (objects.empty()) return no_file_like(root + key);
  return objects;
}

Result<FoundPath> find_objects(const std::string& url, FileFormat format, const StoreWish& wish) {
  TRY(const ObjectUrl at, split_url(url));
  TRY(const auto place, open_place(at.root, wish));
  const std::size_t fixed = fixed_bytes(at.key);
  Objects listed;
  if (fixed == at.key.size() && !at.key.empty() && !at.key.ends_with('/')) {
    // Not all that begins like it: beside `train` there may be `train-2`, with millions of objects.
    TRY(const auto object, place->store().status(at.key));
    if (object) {
      listed.push_back(*object);
    } else {
      TRY(listed, place->store().find(at.key + "/", kObjectsMax));
    }
  } else {
    TRY(listed, place->store().find(at.key.substr(0, fixed), kObjectsMax));
  }
  TRY(const auto chosen, choose_objects(listed, at.root, at.key, format));
  FoundPath found;
  for (const ObjectStatus& object : chosen) {
    found.files.push_back({.path = place->url_of(object.key),
                           .place = place,
                           .bytes = static_cast<std::int64_t>(object.bytes),
                           .version = object.version});
  }
  std::sort(found.files.begin(), found.files.end(),
            [](const DataFile& a, const DataFile& b) { return a.path < b.path; });
  const bool is_one = listed.size() == 1 && listed.front().key == at.key;
  const bool is_folder = !is_one && fixed == at.key.size();
  found.root_bytes = is_folder ? url.size() : url.substr(0, at.root.size() + fixed).rfind('/') + 1;
  return found;
}

}  // namespace train::data
