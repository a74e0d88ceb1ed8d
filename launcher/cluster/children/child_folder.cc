#include "launcher/cluster/children/child_folder.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <charconv>
#include <filesystem>

namespace train {
namespace {

constexpr std::uint64_t kExitBytesMax = 64u << 20;

}  // namespace

std::optional<std::string> find_parent(std::string given, const std::string& storage_path,
                                       bool (*is_parent)(const std::string& path)) {
  while (given.ends_with('/') && given.size() > 1) given.pop_back();
  std::error_code ec;
  if (is_parent(given)) return std::filesystem::absolute(given, ec).string();
  if (given.find('/') != std::string::npos || given.empty()) return std::nullopt;
  const std::string below = join_path(storage_path, given);
  return is_parent(below) ? std::optional(below) : std::nullopt;
}

std::optional<ChildName> child_name(const std::string& given) {
  const std::size_t slash = given.rfind('/');
  if (slash == std::string::npos) return std::nullopt;
  const std::string_view digits = std::string_view(given).substr(slash + 1);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number < 0)
    return std::nullopt;
  return ChildName{given.substr(0, slash), number};
}

std::string stop_text(const LockHolder& owner) {
  return fmt::format("stop {} {} {}\n", owner.host, owner.pid, owner.started);
}

// The journal comes before the specs, without which nothing can be resumed. A run may begin in a
// folder that has the journal alone.
ChildFolder look_into_child(FileSystem& files, const RunFolder& run) {
  std::error_code ignored;
  ChildFolder found{.begun = std::filesystem::exists(run.journal(), ignored) &&
                             std::filesystem::exists(run.resolved_spec(), ignored)};
  const auto text = read_small_file(files, run.exit_json(), kExitBytesMax);
  boost::system::error_code ec;
  const auto exit = boost::json::parse(text ? *text : "", ec);
  if (!ec && exit.is_object()) found.code = code_in(exit.as_object());
  return found;
}

}  // namespace train
