// Checks every #include against the table "Who may use whom" of docs/architecture.md. A linker does
// not see a header-only cycle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

struct Row {
  std::set<std::string> folders;  // that it may use, beside itself
  std::set<std::string> outside;  // third-party libraries that it may use
};
using Table = std::map<std::string, Row>;

/// Maps #include names to libraries. Names not listed belong to the system or the standard library.
const std::map<std::string, std::string> kThirdParty{{"boost/asio", "Asio"},
                                                     {"boost/beast", "Beast"},
                                                     {"boost/process", "Boost.Process"},
                                                     {"boost/json", "Boost.JSON"},
                                                     {"fmt", "fmt"},
                                                     {"spdlog", "spdlog"},
                                                     {"yaml-cpp", "yaml-cpp"},
                                                     {"re2", "RE2"},
                                                     {"openssl", "OpenSSL"},
                                                     {"msgpack", "msgpack"},
                                                     {"xxhash", "xxHash"},
                                                     {"arrow", "Arrow"},
                                                     {"parquet", "Arrow"},
                                                     {"torch", "LibTorch"},
                                                     {"ATen", "LibTorch"},
                                                     {"c10", "LibTorch"},
                                                     {"CLI", "CLI11"},
                                                     {"cuda", "CUDA"},
                                                     {"cuda_runtime", "CUDA"},
                                                     {"nccl", "NCCL"},
                                                     {"gloo", "Gloo"},
                                                     {"curl", "libcurl"},
                                                     {"elfutils", "elfutils"},
                                                     {"libelf", "elfutils"},
                                                     {"gelf", "elfutils"},
                                                     {"dwarf", "elfutils"},
                                                     {"pmix", "PMIx"},
                                                     {"pmix_common", "PMIx"},
                                                     {"pmix_server", "PMIx"},
                                                     {"prometheus", "prometheus-cpp"},
                                                     {"archive", "libarchive"},
                                                     {"archive_entry", "libarchive"},
                                                     {"turbojpeg", "libjpeg-turbo"},
                                                     {"png", "libpng"}};

/// Headers that a pure core must not use: others tell it the time and the events.
const std::set<std::string> kImpure{"thread", "mutex",      "atomic",  "condition_variable",
                                    "future", "filesystem", "fstream", "iostream",
                                    "random", "unistd.h",   "fcntl.h", "sys",
                                    "poll.h"};

std::string read_file(const fs::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string trimmed(std::string text) {
  const auto drop = [](char c) { return c == ' ' || c == '`'; };
  while (!text.empty() && drop(text.front())) text.erase(text.begin());
  while (!text.empty() && drop(text.back())) text.pop_back();
  return text;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) parts.push_back(trimmed(part));
  return parts;
}

std::set<std::string> names_in(const std::string& cell) {
  std::set<std::string> names;
  for (const std::string& name : split(cell, ',')) {
    if (!name.empty()) names.insert(name);
  }
  return names;
}

/// Read the rows below the heading, up to the next heading: | folder | may use | third party |
Table read_table(const std::string& document) {
  Table table;
  const std::size_t begin = document.find("## Who may use whom");
  if (begin == std::string::npos) return table;
  const std::size_t end = document.find("\n## ", begin);
  for (const std::string& line : split(document.substr(begin, end - begin), '\n')) {
    const std::vector<std::string> cells = split(line, '|');
    if (cells.size() < 4 || cells[1] == "folder" || cells[1].starts_with("--")) continue;
    table[cells[1]] = {.folders = names_in(cells[2]), .outside = names_in(cells[3])};
  }
  return table;
}

/// Return the table's longest folder that contains the path.
std::optional<std::string> folder_of(const Table& table, std::string path) {
  for (std::size_t slash = path.rfind('/'); slash != std::string::npos; slash = path.rfind('/')) {
    path.resize(slash);
    if (table.contains(path)) return path;
  }
  return std::nullopt;
}

/// Return the library of a header: "boost/asio/ip/tcp.hpp" belongs to Asio.
std::optional<std::string> library_of(const std::string& header) {
  std::string prefix = header.substr(0, header.rfind('.'));
  while (true) {
    if (const auto known = kThirdParty.find(prefix); known != kThirdParty.end())
      return known->second;
    const std::size_t slash = prefix.rfind('/');
    if (slash == std::string::npos) return std::nullopt;
    prefix.resize(slash);
  }
}

/// Return why `folder` may not include `name`, or nothing. `quoted`: "name", not <name>.
std::optional<std::string> objection(const Table& table, const std::string& folder,
                                     const std::string& name, bool quoted) {
  const Row& row = table.at(folder);
  if (quoted || name.starts_with("train/")) {
    const auto used = folder_of(table, quoted ? name : "sdk/include/" + name);
    if (!used) return "no row has its folder";
    if (*used == folder || row.folders.contains(*used)) return std::nullopt;
    return folder + " may not use " + *used;
  }
  const auto library = library_of(name);
  if (library && !row.outside.contains(*library)) return folder + " may not see " + *library;
  if (folder.ends_with("/core") && kImpure.contains(name.substr(0, name.find('/'))))
    return folder + " is pure";
  return std::nullopt;
}

/// Return "path: #include x: why" for each #include that the table does not allow.
std::vector<std::string> objections(const Table& table, const std::string& path,
                                    const std::string& source) {
  const auto folder = folder_of(table, path);
  if (!folder) return {path + ": no row has its folder"};
  std::vector<std::string> found;
  std::stringstream stream(source);
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("#include <") && !line.starts_with("#include \"")) continue;
    const bool quoted = line[9] == '"';
    const std::string name = line.substr(10, line.find(quoted ? '"' : '>', 10) - 10);
    if (const auto why = objection(table, *folder, name, quoted))
      found.push_back(path + ": #include " + name + ": " + *why);
  }
  return found;
}

Table the_table() {
  return read_table(read_file(fs::path(TRAIN_SOURCE_DIR) / "docs/architecture.md"));
}

TEST(Layering, EveryIncludeIsInTheTable) {
  const Table table = the_table();
  const fs::path root = TRAIN_SOURCE_DIR;
  std::vector<std::string> found;

  int files = 0;
  for (const char* top : {"cmd", "daemon", "launcher", "lib", "sdk"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root / top)) {
      const fs::path& path = entry.path();
      if (path.extension() != ".h" && path.extension() != ".cc") continue;
      ++files;
      for (const std::string& line :
           objections(table, fs::relative(path, root).string(), read_file(path)))
        found.push_back(line);
    }
  }

  EXPECT_GT(files, 100);
  EXPECT_THAT(found, IsEmpty());
}

TEST(Layering, EveryRowIsAFolderAndNamesRows) {
  const Table table = the_table();

  for (const auto& [folder, row] : table) {
    EXPECT_TRUE(fs::is_directory(fs::path(TRAIN_SOURCE_DIR) / folder)) << folder;
    for (const std::string& used : row.folders)
      EXPECT_TRUE(table.contains(used)) << folder << " names " << used;
  }
}

TEST(Layering, TheTableHasNoCycle) {
  const Table table = the_table();
  std::set<std::string> placed;

  for (std::size_t before = table.size() + 1; placed.size() != before;) {
    before = placed.size();
    for (const auto& [folder, row] : table) {
      if (std::includes(placed.begin(), placed.end(), row.folders.begin(), row.folders.end()))
        placed.insert(folder);
    }
  }

  EXPECT_GT(table.size(), 20U);
  EXPECT_EQ(placed.size(), table.size());
}

TEST(Layering, ObjectsToWhatTheTableDoesNotAllow) {
  const Table table = read_table(
      "## Who may use whom\n\n| folder | may use | third party |\n|---|---|---|\n"
      "| `lib/base` | | fmt |\n| `lib/net` | `lib/base` | fmt, Asio |\n| `launcher/core` | "
      "`lib/base` | |\n\n## Next\n| `lib/x` | | |\n");

  EXPECT_THAT(
      objections(table, "launcher/core/a.h",
                 "#include <vector>\n#include <fstream>\n#include \"lib/base/b.h\"\n#include "
                 "\"lib/net/n.h\"\n#include <fmt/format.h>\n"),
      ElementsAre("launcher/core/a.h: #include fstream: launcher/core is pure",
                  "launcher/core/a.h: #include lib/net/n.h: launcher/core may not use lib/net",
                  "launcher/core/a.h: #include fmt/format.h: launcher/core may not see fmt"));
  EXPECT_THAT(
      objections(table, "lib/net/n.cc",
                 "#include <boost/asio.hpp>\n#include <boost/json/parse.hpp>\n"),
      ElementsAre("lib/net/n.cc: #include boost/json/parse.hpp: lib/net may not see Boost.JSON"));
  EXPECT_THAT(objections(table, "lib/x/x.cc", ""),
              ElementsAre("lib/x/x.cc: no row has its folder"));
}

}  // namespace
