// Finds the runs and sweeps that the dashboard shows: in the folders and URLs of its command line,
// again every few seconds. Any thread may call; calls block.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "launcher/dashboard/run_data.h"
#include "launcher/dashboard/sweeps/sweep_data.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

/// A folder or URL of the command line, and what was found there.
struct PlaceState {
  std::string place;
  std::size_t runs = 0;
  std::string error = {};  // why it cannot be read, or ""
};

class RunCatalog {
 public:
  static constexpr std::size_t kRunsMax = 20'000, kSweepsMax = 2'000;
  static constexpr int kDepthMax = 3;  // folders from a place down to a run or sweep
  static constexpr Duration kLookEvery = seconds(2);

  /// `places`: runs, or folders above them, or URLs of runs.
  explicit RunCatalog(std::vector<std::string> places) : places_(std::move(places)) {}

  /// Return all runs, in no order.
  std::vector<std::shared_ptr<RunReader>> runs();
  /// NotFound if no run has this id.
  Result<std::shared_ptr<RunReader>> find(const std::string& id);
  /// Return all sweeps, in no order.
  std::vector<std::shared_ptr<SweepReader>> sweeps();
  /// NotFound if no sweep has this id.
  Result<std::shared_ptr<SweepReader>> find_sweep(const std::string& id);
  std::vector<PlaceState> places();

  /// Fetch the runs in object stores: all that are not here yet, and those that go on. Takes as
  /// long as the stores do; the other calls do not wait for it.
  void fetch();

 private:
  using Runs = std::map<std::string, std::shared_ptr<RunReader>>;
  struct Fetched {
    std::string folder = {}, error = {};
  };
  using Sweeps = std::map<std::string, std::shared_ptr<SweepReader>>;
  struct Found {
    Runs runs;
    Sweeps sweeps;
  };
  void look();
  void look_into(PlaceState& state, const FolderFiles& files, int depth, Found& found);
  void add(PlaceState& state, const FolderFiles& files, const std::string& location,
           const std::optional<TrialOfSweep>& trial, Found& found);
  void add_sweep(PlaceState& state, const FolderFiles& files, Found& found);

  const std::vector<std::string> places_;
  std::mutex mutex_;
  std::optional<TimePoint> looked_at_;
  Runs runs_;                     // by location
  Runs by_id_;                    // the same
  Sweeps sweeps_, sweeps_by_id_;  // by location; by id
  std::vector<PlaceState> states_;
  std::map<std::string, Fetched> fetched_;  // by URL
};

/// Return the id of a run or sweep in addresses: its name, and what tells it from others of the
/// same name.
std::string run_id_of(const std::string& location);

}  // namespace train
