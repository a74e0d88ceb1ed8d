// Finds the objects that a path of a dataset stands for, as find_files() finds files.
#pragma once

#include "lib/data/dataset_files.h"

namespace train::data {

/// What one path of a spec stands for.
struct FoundPath {
  std::vector<DataFile> files = {};  // sorted by name
  std::size_t root_bytes = 0;        // FoundFiles
};

/// The most objects that are listed for one path.
inline constexpr std::size_t kObjectsMax = 2'000'000;

/// Find the objects of `url`: an object, all objects of the format below a folder, or those that
/// are named like a pattern.
Result<FoundPath> find_objects(const std::string& url, FileFormat format, const StoreWish& wish);

/// Return the objects among `listed`, sorted by key, that `key` of the spec stands for. Pure;
/// `root` is for messages. `listed` has all objects whose keys begin like `key` up to its first
/// wildcard.
Result<std::vector<ObjectStatus>> choose_objects(const std::vector<ObjectStatus>& listed,
                                                 const std::string& root, const std::string& key,
                                                 FileFormat format);

}  // namespace train::data
