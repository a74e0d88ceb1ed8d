#include "launcher/cluster/children/child_folder.h"

#include <fmt/format.h>

#include <boost/json/parse.hpp>
#include <filesystem>

namespace train {
namespace {

constexpr std::uint64_t kExitBytesMax = 64u << 20;

}  // namespace

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
