#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "lib/base/store_url.h"
#include "lib/data/brace_ranges.h"
#include "lib/data/dataset_files.h"
#include "lib/data/file_names.h"
#include "lib/data/find_objects.h"

namespace train::data {
namespace {

namespace fs = std::filesystem;

Result<std::vector<std::string>> files_below(const std::string& folder, FileFormat format) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (is_hidden_name(entry->path().filename().string())) {
      entry.disable_recursion_pending();
      continue;
    }
    const bool wanted = belongs(entry->path().filename().string(), format);
    const bool is_folder = entry->is_directory(error);
    if (error == std::errc::no_such_file_or_directory && !wanted) {
      error.clear();  // a link to nothing, as editors make for their locks
      entry.disable_recursion_pending();
    } else if (error) {
      return Error{Errc::Io,
                   fmt::format("cannot read {}: {}", entry->path().string(), error.message())};
    } else if (wanted && !is_folder) {
      files.push_back(entry->path().string());
    }
  }
  if (error) return Error{Errc::Io, fmt::format("cannot list {}: {}", folder, error.message())};
  if (files.empty()) return no_files_in(folder, format);
  return files;
}

Result<std::vector<std::string>> files_like(const std::string& pattern) {
  glob_t found{};
  const int failed = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv,
                                 found.gl_pathv + (failed == 0 ? found.gl_pathc : 0));
  globfree(&found);
  if (failed == GLOB_NOMATCH) return no_file_like(pattern);
  if (failed != 0) return Error{Errc::Io, fmt::format("cannot list {}", pattern)};
  return files;
}

Result<std::vector<std::string>> files_of(const std::string& path, FileFormat format) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return files_below(path, format);
  if (fs::exists(status)) return std::vector<std::string>{path};
  TRY(const auto numbered, expand_ranges(path));
  if (numbered.size() > 1 || numbered.front() != path) {
    std::vector<std::string> files;
    for (const std::string& one : numbered) {
      TRY(const auto found, files_of(one, format));
      files.insert(files.end(), found.begin(), found.end());
    }
    return files;
  }
  if (path.find_first_of(kWildcards) != std::string::npos) return files_like(path);
  if (status.type() == fs::file_type::not_found) return missing(path);
  return Error{Errc::Io, fmt::format("cannot read {}: {}", path, error.message())};
}

/// Return how many bytes of the files' names name the folder that `path` looks below.
std::size_t root_bytes(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return path.size();
  std::size_t fixed = path.size();
  if (!fs::exists(path, error)) fixed = std::min(path.find_first_of("*?[{"), path.size());
  return path.substr(0, fixed).rfind('/') + 1;  // 0 if there is none
}

/// Refuse pipes and devices: to open one may take for ever, and its rows cannot be read twice.
Result<Unit> check_regular(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error) return Error{Errc::Io, fmt::format("cannot read {}: {}", path, error.message())};
  if (fs::is_regular_file(status)) return Unit{};
  return Error{Errc::InvalidArgument, fmt::format("{} is not a regular file", path),
               "remove it, or give a path without it"};
}

/// Return the format that the names of all files tell.
Result<FileFormat> common_format(const std::vector<DataFile>& files) {
  const auto known = [](const DataFile& file) { return belongs(file.path, FileFormat::Auto); };
  const auto unknown = std::find_if_not(files.begin(), files.end(), known);
  if (unknown != files.end()) {
    return Error{Errc::InvalidArgument,
                 fmt::format("the name of {} does not tell its format", unknown->path),
                 "give the dataset's `format`"};
  }
  const FileFormat first = format_of(files.front().path);
  for (const DataFile& file : files) {
    if (format_of(file.path) == first) continue;
    return Error{Errc::InvalidArgument,
                 fmt::format("{} is {}, and {} is {}", files.front().path, to_string(first),
                             file.path, to_string(format_of(file.path))),
                 "files of one dataset have one format: give its `format`, or other paths"};
  }
  return first;
}

}  // namespace

namespace {

Result<FoundPath> find_local(const std::string& path, FileFormat format) {
  FoundPath found;
  TRY(auto files, files_of(path, format));
  std::sort(files.begin(), files.end());
  for (std::string& file : files) {
    TRY_VOID(check_regular(file));
    found.files.push_back({.path = std::move(file)});
  }
  found.root_bytes = root_bytes(path);
  return found;
}

}  // namespace

std::vector<std::string> FoundFiles::paths() const {
  std::vector<std::string> paths;
  for (const DataFile& file : files) paths.push_back(file.path);
  return paths;
}

Result<FoundFiles> find_files(const std::vector<std::string>& paths, FileFormat format,
                              const StoreWish& stores) {
  FoundFiles found{.format = format};
  for (const std::string& path : paths) {
    TRY(auto of_path,
        is_object_url(path) ? find_objects(path, format, stores) : find_local(path, format));
    std::move(of_path.files.begin(), of_path.files.end(), std::back_inserter(found.files));
    found.root_bytes.resize(found.files.size(), of_path.root_bytes);
  }
  if (found.files.empty()) return Error{Errc::InvalidArgument, "it has no path"};
  if (format == FileFormat::Auto) {
    TRY(found.format, common_format(found.files));
  }
  return found;
}

}  // namespace train::data
