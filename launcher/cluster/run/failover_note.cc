#include "launcher/cluster/run/failover_note.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>

#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::uint64_t kNoteBytesMax = 16u << 20;  // 65,536 nodes

constexpr std::string_view kPrefix = ".failover-";

std::string path_of_note(const RunFolder& folder, Generation launcher) {
  return join_path(folder.path(), fmt::format("{}{}", kPrefix, launcher.value));
}

/// Return the generations of which there are notes.
std::vector<Generation> generations(const RunFolder& folder) {
  std::vector<Generation> found;
  PosixFileSystem files;
  const auto entries = files.list(folder.path());
  if (!entries) return found;
  for (const FolderEntry& entry : *entries) {
    if (!entry.name.starts_with(kPrefix)) continue;
    const std::string number = entry.name.substr(kPrefix.size());
    Generation generation;
    const auto read =
        std::from_chars(number.data(), number.data() + number.size(), generation.value);
    if (read.ec == std::errc() && read.ptr == number.data() + number.size())
      found.push_back(generation);
  }
  return found;
}

std::vector<std::string> strings_in(const boost::json::object& json, const char* name) {
  std::vector<std::string> strings;
  const auto* list = json.if_contains(name);
  if (list == nullptr || !list->is_array()) return strings;
  for (const auto& one : list->as_array())
    if (one.is_string()) strings.emplace_back(one.as_string());
  return strings;
}

}  // namespace

Result<Unit> write_failover_note(const RunFolder& folder, Generation launcher,
                                 const FailoverNote& note) {
  const boost::json::object json{{"host", note.host},
                                 {"ready", boost::json::value_from(note.ready)},
                                 {"voters", boost::json::value_from(note.voters)}};
  PosixFileSystem files;
  return write_small_file(files, path_of_note(folder, launcher),
                          boost::json::serialize(json) + "\n");
}

Result<FailoverNote> read_failover_note(const RunFolder& folder, Generation launcher) {
  PosixFileSystem files;
  TRY(const std::string text,
      read_small_file(files, path_of_note(folder, launcher), kNoteBytesMax));
  boost::system::error_code ec;
  const auto json = boost::json::parse(text, ec);
  if (ec || !json.is_object())
    return Error{Errc::Corrupt, path_of_note(folder, launcher) + " is damaged"};
  const auto* host = json.as_object().if_contains("host");
  return FailoverNote{host != nullptr && host->is_string() ? std::string(host->as_string()) : "",
                      strings_in(json.as_object(), "ready"),
                      strings_in(json.as_object(), "voters")};
}

Result<FailoverNote> read_failover_note(const RunFolder& folder) {
  const std::vector<Generation> all = generations(folder);
  if (all.empty()) return Error{Errc::NotFound, "no node stands ready for " + folder.path()};
  return read_failover_note(folder, *std::max_element(all.begin(), all.end()));
}

void remove_failover_notes(const RunFolder& folder) {
  for (const Generation generation : generations(folder))
    ::unlink(path_of_note(folder, generation).c_str());
}

}  // namespace train
