// What the commands that look at a run's folder share: whether the run goes on, and small files of
// it.
#pragma once

#include <boost/json/object.hpp>
#include <chrono>
#include <string>

#include "cmd/train-run/commands.h"
#include "lib/storage/run_folder.h"

namespace train {

inline constexpr auto kPollEvery = std::chrono::milliseconds(100);

Result<RunFolder> folder_of(const RunReference& reference);
/// Print the error, and return the exit code.
int failed(const Error& error);
/// Return whether a launcher has the run now: its lock is held, or it runs on another machine.
bool is_running(const RunFolder& folder);
/// Read a JSON object of a run that may belong to somebody else. Empty if there is none.
boost::json::object read_json(const std::string& path);

/// Tells whether a launcher has the run, or will soon, because a traind restarts its controller.
class Life {
 public:
  static constexpr auto kFetchEvery = std::chrono::seconds(5);

  explicit Life(std::chrono::seconds fetch_every = kFetchEvery) : fetch_every_(fetch_every) {}

  /// Look again. If the run is on another machine, fetch it first, but not at every call.
  bool goes_on(const RunFolder& folder);

 private:
  const std::chrono::seconds fetch_every_;
  // The command has just fetched it.
  std::chrono::steady_clock::time_point seen_ = std::chrono::steady_clock::now(), fetched_ = seen_;
};

}  // namespace train
