// The files by which the probes of `train-run check` see whether they have one storage: each makes
// one in a folder of theirs, and looks for those of the others. Calls block.
#pragma once

#include <string>

namespace train {

/// A probe's file there. What it has made goes with it, however the probe ends.
class StorageMark {
 public:
  /// `storage`: the folder that all should see. `mark`: names the probes' folder in it.
  StorageMark(const std::string& storage, std::string mark, int rank);
  StorageMark(const StorageMark&) = delete;
  StorageMark& operator=(const StorageMark&) = delete;
  ~StorageMark();

  /// Make the file. Return what is wrong, or "".
  std::string write();
  /// Return whether another rank's file is there.
  bool sees(int rank) const;
  /// Remove the file, if this has made it.
  void remove_file();

 private:
  std::string file_of(int rank) const;

  const std::string folder_, mark_;
  const int rank_;
  bool made_ = false;
};

}  // namespace train
