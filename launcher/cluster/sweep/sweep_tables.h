// Keeps what users look at in a sweep's folder up to date: trials.csv, and the link `best`.
#pragma once

#include <optional>
#include <utility>

#include "launcher/cluster/sweep/sweep_folder.h"
#include "launcher/cluster/sweep/sweep_screen.h"
#include "lib/base/time.h"

namespace train {

class SweepTables {
 public:
  /// `search`, `screen`: must outlive this. The screen is told what cannot be written.
  SweepTables(SweepFolder folder, const SearchController& search, SweepScreen& screen)
      : folder_(std::move(folder)), search_(search), screen_(screen) {}

  /// The journal has more records.
  void changed() { changed_ = true; }
  /// Write what has changed; not often, unless it is the end.
  void write(TimePoint now, bool at_end);

 private:
  const SweepFolder folder_;
  const SearchController& search_;
  SweepScreen& screen_;
  bool changed_ = true;
  TimePoint written_ = {};
  std::optional<std::pair<int, int>> linked_;  // the trial, and its part
};

}  // namespace train
