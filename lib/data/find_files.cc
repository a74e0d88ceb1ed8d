#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lib/data/brace_ranges.h"
#include "lib/data/dataset_files.h"

namespace train::data {
namespace {

namespace fs = std::filesystem;

struct Ending {
  std::string_view text;
  FileFormat format;
};
constexpr std::array kEndings{
    Ending{".parquet", FileFormat::Parquet}, Ending{".csv", FileFormat::Csv},
    Ending{".tsv", FileFormat::Csv},         Ending{".json", FileFormat::Json},
    Ending{".jsonl", FileFormat::Json},      Ending{".ndjson", FileFormat::Json},
    Ending{".arrow", FileFormat::Arrow},     Ending{".feather", FileFormat::Arrow},
    Ending{".orc", FileFormat::Orc},         Ending{".npy", FileFormat::Numpy},
    Ending{".tar", FileFormat::WebDataset},  Ending{".tgz", FileFormat::WebDataset},
    Ending{".bin", FileFormat::Cifar},       Ending{".jpg", FileFormat::Images},
    Ending{".jpeg", FileFormat::Images},     Ending{".png", FileFormat::Images}};
constexpr std::array<std::string_view, 3> kCompressed{".gz", ".zst", ".bz2"};
constexpr std::array<std::string_view, 10> kNames{
    "auto", "parquet", "csv", "json", "arrow", "orc", "numpy", "cifar", "images", "webdataset"};

/// Return whether files of the format may be compressed as a whole.
bool may_be_compressed(FileFormat format) {
  return is_text(format) || format == FileFormat::WebDataset;
}

/// Return whether names never tell the format, as what ends so may be anything, or stand beside
/// other data.
bool must_be_given(FileFormat format) {
  return format == FileFormat::Cifar || format == FileFormat::Images;
}

/// Return whether `name` ends like `ending`. Cameras write .JPG.
bool ends_like(std::string_view name, const Ending& ending) {
  if (ending.format != FileFormat::Images) return name.ends_with(ending.text);
  if (name.size() < ending.text.size()) return false;
  name.remove_prefix(name.size() - ending.text.size());
  return std::equal(name.begin(), name.end(), ending.text.begin(), [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

/// Return the format that a file's name ends like; Auto for none.
FileFormat format_of(std::string_view name) {
  bool compressed = false;
  for (const std::string_view ending : kCompressed) {
    if (!name.ends_with(ending)) continue;
    name.remove_suffix(ending.size());
    compressed = true;
    break;
  }
  for (const Ending& ending : kEndings) {
    if (ends_like(name, ending) && (!compressed || may_be_compressed(ending.format)))
      return ending.format;
  }
  return FileFormat::Auto;
}

/// Return whether a folder's file belongs to a dataset of `format`.
bool belongs(std::string_view name, FileFormat format) {
  const FileFormat found = format_of(name);
  if (format == FileFormat::Auto) return found != FileFormat::Auto && !must_be_given(found);
  return found == format;
}

std::string endings_of(FileFormat format) {
  std::string text;
  for (const Ending& ending : kEndings) {
    if (format == FileFormat::Auto ? must_be_given(ending.format) : ending.format != format)
      continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ending.text);
  }
  return text;
}

bool is_hidden(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.empty() || name.front() == '.' || name.front() == '_';
}

Result<std::vector<std::string>> files_below(const std::string& folder, FileFormat format) {
  std::vector<std::string> files;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    if (is_hidden(entry->path())) {
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
  if (files.empty()) {
    return Error{Errc::NotFound,
                 format == FileFormat::Auto
                     ? fmt::format("{} has no files of a known format", folder)
                     : fmt::format("{} has no {} files", folder, to_string(format)),
                 fmt::format("names must end in {}; those that begin with '.' or '_' are ignored",
                             endings_of(format))};
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
  if (path.find_first_of("*?[") != std::string::npos) return files_like(path);
  if (status.type() == fs::file_type::not_found) {
    return Error{Errc::NotFound, fmt::format("{} does not exist", path),
                 "check the path in the job's YAML"};
  }
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
Result<FileFormat> common_format(const std::vector<std::string>& paths) {
  const auto known = [](const std::string& path) { return belongs(path, FileFormat::Auto); };
  const auto unknown = std::find_if_not(paths.begin(), paths.end(), known);
  if (unknown != paths.end()) {
    return Error{Errc::InvalidArgument,
                 fmt::format("the name of {} does not tell its format", *unknown),
                 "give the dataset's `format`"};
  }
  const FileFormat first = format_of(paths.front());
  for (const std::string& path : paths) {
    if (format_of(path) == first) continue;
    return Error{Errc::InvalidArgument,
                 fmt::format("{} is {}, and {} is {}", paths.front(), to_string(first), path,
                             to_string(format_of(path))),
                 "files of one dataset have one format: give its `format`, or other paths"};
  }
  return first;
}

}  // namespace

std::string_view to_string(FileFormat format) { return kNames[static_cast<std::size_t>(format)]; }

std::optional<FileFormat> file_format(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<FileFormat>(found - kNames.begin());
}

Result<FoundFiles> find_files(const std::vector<std::string>& paths, FileFormat format) {
  FoundFiles found{.format = format};
  for (const std::string& path : paths) {
    TRY(auto files, files_of(path, format));
    std::sort(files.begin(), files.end());
    for (const std::string& file : files) TRY_VOID(check_regular(file));
    found.paths.insert(found.paths.end(), files.begin(), files.end());
    found.root_bytes.resize(found.paths.size(), root_bytes(path));
  }
  if (found.paths.empty()) return Error{Errc::InvalidArgument, "it has no path"};
  if (format == FileFormat::Auto) {
    TRY(found.format, common_format(found.paths));
  }
  return found;
}

}  // namespace train::data
