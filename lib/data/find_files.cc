#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "lib/data/dataset_files.h"

namespace train::data {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.empty() || name.front() == '.' || name.front() == '_';
}

Result<std::vector<std::string>> files_below(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (is_hidden(entry->path())) {
      entry.disable_recursion_pending();
      continue;
    }
    const bool is_parquet = entry->path().extension() == ".parquet";
    const bool is_folder = entry->is_directory(error);
    if (error == std::errc::no_such_file_or_directory && !is_parquet) {
      error.clear();  // a link to nothing, as editors make for their locks
      entry.disable_recursion_pending();
    } else if (error) {
      return Error{Errc::Io,
                   fmt::format("cannot read {}: {}", entry->path().string(), error.message())};
    } else if (is_parquet && !is_folder) {
      files.push_back(entry->path().string());
    }
  }
  if (error) return Error{Errc::Io, fmt::format("cannot list {}: {}", folder, error.message())};
  if (files.empty()) {
    return Error{Errc::NotFound, fmt::format("{} has no Parquet files", folder),
                 "names must end in .parquet; those that begin with '.' or '_' are ignored"};
  }
  return files;
}

Result<std::vector<std::string>> files_like(const std::string& pattern) {
  glob_t found{};
  const int failed = glob(pattern.c_str(), GLOB_ERR, nullptr, &found);
  std::vector<std::string> files(found.gl_pathv,
                                 found.gl_pathv + (failed == 0 ? found.gl_pathc : 0));
  globfree(&found);
  if (failed == GLOB_NOMATCH) {
    return Error{Errc::NotFound, fmt::format("no file is named like {}", pattern),
                 "check the path in the job's YAML"};
  }
  if (failed != 0) return Error{Errc::Io, fmt::format("cannot list {}", pattern)};
  return files;
}

}  // namespace

Result<std::vector<std::string>> find_files(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  std::vector<std::string> files;
  if (fs::is_directory(status)) {
    TRY(files, files_below(path));
  } else if (fs::exists(status)) {
    files.push_back(path);
  } else if (path.find_first_of("*?[") != std::string::npos) {
    TRY(files, files_like(path));
  } else if (status.type() == fs::file_type::not_found) {
    return Error{Errc::NotFound, fmt::format("{} does not exist", path),
                 "check the path in the job's YAML"};
  } else {
    return Error{Errc::Io, fmt::format("cannot read {}: {}", path, error.message())};
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace train::data
