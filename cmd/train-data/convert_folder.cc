#include "cmd/train-data/convert_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "lib/base/text_file.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConversion = ".trainrun-convert.json";
constexpr int kDigitsMin = 6;

/// Return the keys whose values differ.
std::vector<std::string> differences(const Dict& a, const Dict& b) {
  std::vector<std::string> keys;
  const auto look = [&](const Dict& one, const Dict& other) {
    for (const auto& [key, value] : one) {
      const auto found = other.find(key);
      if (found != other.end() && found->second == value) continue;
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  };
  look(a, b);
  look(b, a);
  return keys;
}

Result<Unit> check_same(const std::string& path, const std::string& found, const Dict& wanted) {
  const Error damaged{Errc::Corrupt, fmt::format("{} is damaged", path),
                      "convert into another folder"};
  try {
    const Dict before = parse_json(found).as<Dict>();
    const std::vector<std::string> differ = differences(before, wanted);
    if (differ.empty()) return Unit{};
    return Error{Errc::AlreadyExists,
                 fmt::format("the folder has the files of another conversion: other {}, as {} says",
                             fmt::join(differ, ", "), path),
                 "convert into another folder, or repeat the command that began this one"};
  } catch (const Failure&) {
    return damaged;
  }
}

Result<Unit> sync(int fd, const std::string& path) {
  if (::fsync(fd) != 0) return system_error(errno, "writing " + path);
  return Unit{};
}

/// Create a file, or empty it.
Result<FileDescriptor> create(const std::string& path) {
  FileDescriptor fd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (fd.get() < 0) return system_error(errno, "creating " + path);
  return fd;
}

Result<Unit> rename_file(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return system_error(errno, "renaming " + from);
  return Unit{};
}

}  // namespace

Result<ConvertFolder> ConvertFolder::open(const std::string& path, const Dict& conversion,
                                          const Files& files) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return system_error(error.value(), "creating " + path);
  ConvertFolder folder(path, files);
  folder.lock_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.lock_.get() < 0) return system_error(errno, "opening " + path);
  // Some file systems have no locks.
  if (::flock(folder.lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return Error{Errc::AlreadyExists, fmt::format("another process converts into {}", path)};
  const std::string text = read_text(folder.path_of(kConversion));
  const bool ours = fs::exists(folder.path_of(kConversion), error);
  TRY_VOID(folder.check_contents(ours));
  if (ours) {
    TRY_VOID(check_same(folder.path_of(kConversion), text, conversion));
    return folder;
  }
  TRY_VOID(folder.write_conversion(to_json(conversion)));
  return folder;
}

/// Refuse a folder with anything but files of ours: they could be taken for rows.
Result<Unit> ConvertFolder::check_contents(bool ours) const {
  std::error_code error;
  fs::directory_iterator entry(path_, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const bool begun = name == std::string(kConversion) + ".partial";
    if (begun || (ours && is_ours(name))) continue;
    return Error{Errc::AlreadyExists, fmt::format("{} is not empty: it has {}", path_, name),
                 "convert into a new folder"};
  }
  if (error) return system_error(error.value(), "listing " + path_);
  return Unit{};
}

bool ConvertFolder::is_ours(const std::string& name) const {
  if (name == kConversion) return true;
  std::string of_file = name;
  if (of_file.starts_with('.') && of_file.ends_with(".partial"))
    of_file = of_file.substr(1, of_file.size() - 1 - std::string_view(".partial").size());
  const auto dash = of_file.find('-');
  if (!of_file.starts_with("part-")) return false;
  std::int64_t number = -1;
  const char* begin = of_file.data() + dash + 1;
  if (std::from_chars(begin, of_file.data() + of_file.size(), number).ec != std::errc())
    return false;
  return number >= 0 && number < files_.count && of_file == name_of(number);
}

Result<Unit> ConvertFolder::write_conversion(const std::string& text) const {
  const std::string partial = path_of(std::string(kConversion) + ".partial");
  TRY(const FileDescriptor fd, create(partial));
  TRY_VOID(write_all(fd.get(), text + "\n", partial));
  TRY_VOID(sync(fd.get(), partial));
  TRY_VOID(rename_file(partial, path_of(kConversion)));
  return sync_folder();
}

Result<Unit> ConvertFolder::sync_folder() const { return sync(lock_.get(), path_); }

std::string ConvertFolder::name_of(std::int64_t file) const {
  const auto digits =
      std::max(kDigitsMin, static_cast<int>(std::to_string(files_.count - 1).size()));
  return fmt::format("part-{:0{}}.{}", file, digits, files_.ending);
}

std::string ConvertFolder::partial_path(std::int64_t file) const {
  return path_of("." + name_of(file) + ".partial");
}

Result<bool> ConvertFolder::has(std::int64_t file) const {
  struct stat status {};
  const std::string path = path_of(name_of(file));
  if (::lstat(path.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode)) return true;
    return Error{Errc::AlreadyExists, fmt::format("{} is no regular file", path)};
  }
  if (errno == ENOENT) return false;
  return system_error(errno, "looking for " + path);
}

Result<FileDescriptor> ConvertFolder::begin(std::int64_t file) const {
  return create(partial_path(file));
}

Result<std::int64_t> ConvertFolder::commit(std::int64_t file, FileDescriptor fd) const {
  const std::string partial = partial_path(file);
  TRY_VOID(sync(fd.get(), partial));
  const auto bytes = static_cast<std::int64_t>(::lseek(fd.get(), 0, SEEK_END));
  TRY_VOID(rename_file(partial, path_of(name_of(file))));
  TRY_VOID(sync_folder());
  return bytes;
}

void ConvertFolder::discard(std::int64_t file) const { ::unlink(partial_path(file).c_str()); }

}  // namespace train
