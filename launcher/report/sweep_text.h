// Shows a sweep: as a table for `train-run status`, as lines while it runs, and as a few lines that
// are drawn anew on a terminal. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace train {

struct SweepRow {
  int trial = 0;
  std::string state = {};  // running, finished, stopped, failed, invalid
  std::optional<double> time = {}, value = {}, best = {};
  std::string parameters = {};  // "lr=0.001 layers=4"
  std::string cause = {};
};

struct SweepTable {
  std::string metric = {};
  std::string time = {};  // "epoch", "report"
  int trials = 0;         // so many there will be
  std::optional<int> best = {};
  std::vector<SweepRow> rows = {};  // by number
};

/// Return "12 of 64 trials: 2 running, 7 finished, 3 stopped".
std::string sweep_counts(const SweepTable& table);
/// Return "best: trial 7, val_acc 0.91 at epoch 12: lr=0.001"; "" if there is none.
std::string sweep_best(const SweepTable& table);
/// Return a heading and one line per trial: of many trials, those that run, and the best of the
/// others as `rows` (the best first), and how many are left out.
std::string sweep_table(const SweepTable& table, const std::vector<int>& best_first,
                        std::size_t rows_max, int columns);
/// Return what to say when a trial has ended, or has begun: "trial 3 stopped: val_acc 0.5 at epoch
/// 4".
std::string trial_line(const SweepTable& table, const SweepRow& row);

/// Return the number with six digits.
std::string short_number(double number);

/// A few lines at the end of a terminal's output, which are replaced by others.
class DrawnLines {
 public:
  /// Return the bytes that replace what was drawn last by `lasting` (whole lines, which stay) and
  /// `lines`, each cut to the columns. All of them have passed terminal_safe.
  std::string draw(const std::string& lasting, const std::vector<std::string>& lines, int columns);

 private:
  std::size_t drawn_ = 0;
};

}  // namespace train
