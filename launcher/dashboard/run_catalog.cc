#include "launcher/dashboard/run_catalog.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/run/run_registry.h"
#include "lib/base/store_url.h"
#include "lib/base/utf8.h"
#include "lib/storage/digest.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kIdNameBytesMax = 128;

}  // namespace

std::string run_id_of(const std::string& location) {
  std::string name = fs::path(location).filename().string().substr(0, kIdNameBytesMax);
  for (char& c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return fmt::format("{}~{:08x}", name, digest64_of(location) >> 32);
}

std::vector<std::shared_ptr<RunReader>> RunCatalog::runs() {
  const std::lock_guard lock(mutex_);
  look();
  std::vector<std::shared_ptr<RunReader>> all;
  all.reserve(runs_.size());
  for (const auto& [location, run] : runs_) all.push_back(run);
  return all;
}

Result<std::shared_ptr<RunReader>> RunCatalog::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  look();
  const auto found = by_id_.find(id);
  if (found != by_id_.end()) return found->second;
  return Error{Errc::NotFound, fmt::format("no run has the id \"{}\"", utf8_text(id, 160))};
}

std::vector<std::shared_ptr<SweepReader>> RunCatalog::sweeps() {
  const std::lock_guard lock(mutex_);
  look();
  std::vector<std::shared_ptr<SweepReader>> all;
  for (const auto& [location, sweep] : sweeps_) all.push_back(sweep);
  return all;
}

Result<std::shared_ptr<SweepReader>> RunCatalog::find_sweep(const std::string& id) {
  const std::lock_guard lock(mutex_);
  look();
  const auto found = sweeps_by_id_.find(id);
  if (found != sweeps_by_id_.end()) return found->second;
  return Error{Errc::NotFound, fmt::format("no sweep has the id \"{}\"", utf8_text(id, 160))};
}

std::vector<PlaceState> RunCatalog::places() {
  const std::lock_guard lock(mutex_);
  look();
  return states_;
}

void RunCatalog::fetch() {
  for (const std::string& place : places_) {
    if (!is_object_url(place)) continue;
    Fetched known;
    {
      const std::lock_guard lock(mutex_);
      known = fetched_[place];
    }
    const bool over = !known.folder.empty() && running_elsewhere(RunFolder(known.folder)).empty();
    if (over) continue;
    const auto folder = find_run(place, "");
    const std::lock_guard lock(mutex_);
    if (folder) fetched_[place] = {*folder, ""};
    if (!folder) fetched_[place].error = folder.error().describe();
    looked_at_.reset();
  }
}

void RunCatalog::look() {
  const TimePoint now = std::chrono::steady_clock::now();
  if (looked_at_ && now - *looked_at_ < kLookEvery) return;
  looked_at_ = now;
  states_.clear();
  Found found;
  for (const std::string& place : places_) {
    PlaceState state{.place = place};
    std::error_code failed;
    if (is_object_url(place)) {
      const Fetched& fetched = fetched_[place];
      state.error = fetched.error;
      if (!fetched.folder.empty()) add(state, FolderFiles(fetched.folder), place, {}, found);
    } else if (!fs::is_directory(place, failed)) {
      state.error = failed ? failed.message() : "it is no folder";
    } else if (::access(place.c_str(), R_OK | X_OK) != 0) {
      state.error = std::generic_category().message(errno);
    } else {
      std::string path = fs::absolute(place, failed).lexically_normal().string();
      while (path.size() > 1 && path.ends_with('/')) path.pop_back();
      look_into(state, FolderFiles(path), 0, found);
    }
    states_.push_back(std::move(state));
  }
  runs_ = std::move(found.runs);
  sweeps_ = std::move(found.sweeps);
  sweeps_by_id_.clear();
  for (const auto& [location, sweep] : sweeps_) sweeps_by_id_[sweep->id()] = sweep;
  by_id_.clear();
  for (const auto& [location, run] : runs_) by_id_[run->id()] = run;
}

void RunCatalog::look_into(PlaceState& state, const FolderFiles& files, int depth, Found& found) {
  if (files.stamp("events.jsonl")) return add(state, files, files.folder(), {}, found);
  if (files.stamp("sweep.jsonl")) return add_sweep(state, files, found);
  if (depth == kDepthMax) return;
  for (const std::string& name : files.list(""))
    if (files.is_folder(name)) look_into(state, files.of(name), depth + 1, found);
}

void RunCatalog::add_sweep(PlaceState& state, const FolderFiles& files, Found& found) {
  if (found.sweeps.size() >= kSweepsMax) {
    state.error = fmt::format("more than {} sweeps: the rest is left out", kSweepsMax);
    return;
  }
  const std::string& location = files.folder();
  std::shared_ptr<SweepReader>& sweep = found.sweeps[location];
  if (sweep != nullptr) return;
  const auto known = sweeps_.find(location);
  sweep = known != sweeps_.end() ? known->second
                                 : std::make_shared<SweepReader>(run_id_of(location), files);
  const FolderFiles trials = files.of("trials");
  for (const std::string& name : trials.list("")) {
    const auto trial = trial_in(name);
    if (!trial) continue;
    const FolderFiles run = trials.of(name);
    if (runs_.contains(run.folder()) || run.stamp("events.jsonl"))
      add(state, run, run.folder(),
          TrialOfSweep{.sweep = sweep->id(),
                       .name = fs::path(location).filename().string(),
                       .trial = *trial},
          found);
  }
}

void RunCatalog::add(PlaceState& state, const FolderFiles& files, const std::string& location,
                     const std::optional<TrialOfSweep>& trial, Found& found) {
  if (found.runs.size() >= kRunsMax) {
    state.error = fmt::format("more than {} runs: the rest is left out", kRunsMax);
    return;
  }
  ++state.runs;
  std::shared_ptr<RunReader>& run = found.runs[location];
  if (run != nullptr) return;
  const auto known = runs_.find(location);
  run = known != runs_.end()
            ? known->second
            : std::make_shared<RunReader>(run_id_of(location), files, location, trial);
}

}  // namespace train
