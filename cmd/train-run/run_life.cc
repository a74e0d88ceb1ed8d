#include "cmd/train-run/run_life.h"

#include <boost/json/parse.hpp>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/cluster/run/run_registry.h"

namespace train {
namespace {

// For a detached controller's successor, here or on another node.
constexpr auto kComeBackLimit = std::chrono::seconds(40);
constexpr auto kFailoverLimit = std::chrono::minutes(5);

/// Fetch a run of another machine again. Its launcher puts new output into the store every 5 s.
void fetch_again(const RunFolder& folder) { (void)find_run(location_of_run(folder), ""); }

}  // namespace

Result<RunFolder> folder_of(const RunReference& reference) {
  TRY(const std::string path, path_of(reference));
  return RunFolder(path);
}

int failed(const Error& error) {
  print_error(error);
  return exit_code_of(error, exit_code::kUsage);
}

bool is_running(const RunFolder& folder) {
  if (!running_elsewhere(folder).empty()) return true;
  const auto held = is_held(folder.lock());
  return held && *held;
}

boost::json::object read_json(const std::string& path) {
  constexpr std::uint64_t kBytesMax = 64 << 20;  // exit.json has the run's result
  PosixFileSystem files;
  const auto text = read_small_file(files, path, kBytesMax);
  boost::system::error_code ec;
  auto json = boost::json::parse(text ? *text : "", ec);
  return !ec && json.is_object() ? json.as_object() : boost::json::object{};
}

bool Life::goes_on(const RunFolder& folder) {
  const auto now = std::chrono::steady_clock::now();
  if (now - fetched_ >= fetch_every_ && !running_elsewhere(folder).empty()) {
    fetch_again(folder);
    fetched_ = std::chrono::steady_clock::now();
  }
  const bool running = is_running(folder);
  if (running) seen_ = now;
  if (running || !is_detached(folder)) return running;
  return now - seen_ < (may_fail_over(folder) ? kFailoverLimit : kComeBackLimit);
}

}  // namespace train
