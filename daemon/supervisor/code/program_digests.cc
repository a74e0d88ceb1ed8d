#include "daemon/supervisor/code/program_digests.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "daemon/supervisor/code/dynamic_file.h"
#include "daemon/supervisor/code/library_search.h"
#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/text_file.h"
#include "lib/storage/digest.h"

namespace train {
namespace {

constexpr std::int64_t kDigestBytesMax = 256 << 20;  // a larger file counts by its size
constexpr std::int64_t kNamedBytesMax = 64 << 20;    // larger ones are data, not code
constexpr std::size_t kNamedMax = 16, kInterpretersMax = 4, kFirstLineMax = 256;
constexpr std::size_t kLibrariesMax = kDigestFilesMax - kNamedMax - kInterpretersMax - 1;

std::string content_digest(int fd, std::int64_t size) {
  if (size > kDigestBytesMax) return fmt::format("{} bytes", size);
  Hasher stream;
  std::vector<char> buffer(1 << 20);
  std::int64_t at = 0;
  for (ssize_t got = 0; at < size && (got = ::pread(fd, buffer.data(), buffer.size(), at)) > 0;
       at += got)
    stream.update({buffer.data(), static_cast<std::size_t>(got)});
  return at < size ? "" : to_hex(stream.digest());
}

/// Return the digest of a regular file of at most `bytes_max`; "" for anything else.
std::string file_digest(const std::string& path, std::int64_t bytes_max) {
  struct stat status {};
  const FileDescriptor file = open_regular(path);
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || status.st_size > bytes_max) return "";
  if (const auto elf = read_dynamic_file(file.get()); elf && !elf->build_id.empty())
    return fmt::format("{} {}", elf->build_id, status.st_size);
  return content_digest(file.get(), status.st_size);
}

/// Return the words of a script's first line, "#!/usr/bin/env python3".
std::vector<std::string> interpreter_of(const std::string& path) {
  const FileDescriptor file = open_regular(path);
  std::array<char, kFirstLineMax> buffer{};
  const ssize_t got = file.get() < 0 ? 0 : ::pread(file.get(), buffer.data(), buffer.size(), 0);
  std::string_view line(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (!line.starts_with("#!")) return {};
  line = line.substr(2, line.find('\n') - 2);
  std::vector<std::string> words;
  while (words.size() < 2 && line.find_first_not_of(" \t\r") != line.npos) {
    line.remove_prefix(line.find_first_not_of(" \t\r"));
    const std::size_t end = std::min(line.find_first_of(" \t\r"), line.size());
    words.emplace_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

/// Return NCCL's version from where its library is: the file's name, or the Python package's.
std::string nccl_version(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  const std::string name = real.filename().string();
  constexpr std::string_view kStem = "libnccl.so.";
  if (name.starts_with(kStem) && name.find('.', kStem.size()) != name.npos)
    return name.substr(kStem.size());
  constexpr std::string_view kPackage = "nvidia_nccl_";
  // …/site-packages/nvidia/nccl/lib/libnccl.so.2 and
  // …/site-packages/nvidia_nccl_cu12-2.21.5.dist-info
  const fs::path packages = real.parent_path().parent_path().parent_path().parent_path();
  for (fs::directory_iterator entry(packages, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string package = entry->path().filename().string();
    const std::size_t dash = package.find('-'), info = package.find(".dist-info");
    if (package.starts_with(kPackage) && dash < info && info != package.npos)
      return package.substr(dash + 1, info - dash - 1);
  }
  return "";
}

std::string first_line(std::string text) {
  text.resize(std::min(text.find('\n'), text.size()));
  return text;
}

class Finder {
 public:
  explicit Finder(const DigestOrder& order)
      : order_(order), paths_(library_paths(order.library_path, order.working_dir)) {}

  NodeDigests find() {
    add_program(order_.command.front(), 0);
    std::size_t named = 0;
    for (auto word = order_.command.begin() + 1; word != order_.command.end(); ++word) {
      if (word->starts_with('-') || named == kNamedMax) continue;
      const std::string path = word->starts_with('/') ? *word : order_.working_dir + "/" + *word;
      std::string digest = file_digest(path, kNamedBytesMax);
      if (digest.empty()) continue;
      ++named;
      add(*word, path, std::move(digest));
    }
    return std::move(found_);
  }

 private:
  void add(const std::string& name, const std::string& path, std::string digest) {
    const auto known = [&](const FileDigest& file) { return file.name == name; };
    if (found_.files.size() >= kDigestFilesMax ||
        std::any_of(found_.files.begin(), found_.files.end(), known))
      return;
    found_.files.push_back({name, path, std::move(digest)});
  }

  /// Add a program, or a script and its interpreter. One that is not there fails as it starts.
  void add_program(const std::string& name, std::size_t depth) {
    const auto path =
        find_program(name, order_.working_dir, order_.path.empty() ? kDefaultPath : order_.path);
    if (!path) return;
    add(name, *path, file_digest(*path, INT64_MAX));
    const std::vector<std::string> words = interpreter_of(*path);
    if (words.empty()) return add_libraries(name, *path);
    if (depth == kInterpretersMax) return;
    add_program(words[0], depth + 1);
    if (words.size() == 2 && words[0].ends_with("/env") && !words[1].starts_with('-'))
      add_program(words[1], depth + 1);
  }

  void add_libraries(const std::string& name, const std::string& path) {
    LoadedFiles loaded = loaded_files(name, path, paths_, kLibrariesMax);
    for (const LoadedFile& file : loaded.files) {
      if (file.path == path) continue;
      add(file.name, file.path, file_digest(file.path, INT64_MAX));
      if (file.name.starts_with("libnccl.so")) found_.nccl = nccl_version(file.path);
    }
    for (LoadedFiles::Missing& missing : loaded.missing)
      found_.missing.push_back({std::move(missing.name), std::move(missing.needed_by)});
  }

  const DigestOrder& order_;
  const LibraryPaths paths_;
  NodeDigests found_;
};

}  // namespace

NodeDigests program_digests(const DigestOrder& order, const std::string& sys) {
  if (order.command.empty()) return {};
  NodeDigests found = Finder(order).find();
  found.driver = first_line(read_text(sys + "/module/nvidia/version"));
  return found;
}

}  // namespace train
