#include "lib/data/file_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace train::data {
namespace {

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

std::string endings_of(FileFormat format) {
  std::string text;
  for (const Ending& ending : kEndings) {
    if (format == FileFormat::Auto ? must_be_given(ending.format) : ending.format != format)
      continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ending.text);
  }
  return text;
}

}  // namespace

std::string_view to_string(FileFormat format) { return kNames[static_cast<std::size_t>(format)]; }

std::optional<FileFormat> file_format(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<FileFormat>(found - kNames.begin());
}

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

bool belongs(std::string_view name, FileFormat format) {
  const FileFormat found = format_of(name);
  if (format == FileFormat::Auto) return found != FileFormat::Auto && !must_be_given(found);
  return found == format;
}

bool is_hidden_name(std::string_view name) {
  return name.empty() || name.front() == '.' || name.front() == '_';
}

Error no_files_in(const std::string& folder, FileFormat format) {
  return Error{Errc::NotFound,
               format == FileFormat::Auto
                   ? fmt::format("{} has no files of a known format", folder)
                   : fmt::format("{} has no {} files", folder, to_string(format)),
               fmt::format("names must end in {}; those that begin with '.' or '_' are ignored",
                           endings_of(format))};
}

Error missing(const std::string& path) {
  return Error{Errc::NotFound, fmt::format("{} does not exist", path),
               "check the path in the job's YAML"};
}

Error no_file_like(const std::string& pattern) {
  return Error{Errc::NotFound, fmt::format("no file is named like {}", pattern),
               "check the path in the job's YAML"};
}

}  // namespace train::data
