// What a program that runs alone (num_workers: 0) leaves in its folder, for whoever follows it:
// each start of the program has an attempt there, which it locks, with its reports in
// metrics.jsonl, and what else it has to say in solo.jsonl (sdk/client/solo_session.h). The program
// may be anything: what it writes is bounded here, and a line that is none of ours is left out.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/ids.h"
#include "lib/base/metrics.h"
#include "lib/model/user_error.h"
#include "lib/storage/run_folder.h"

namespace train {

/// Reads the lines that are appended to a file, which may be yet to come.
class AppendedLines {
 public:
  explicit AppendedLines(std::string path) : path_(std::move(path)) {}
  /// Return the whole lines that have come, those of a few MiB at most.
  std::vector<std::string> take();
  /// Return whether the last take() came to the file's end.
  bool at_end() const { return at_end_; }

 private:
  void take_line(std::string line, std::vector<std::string>& lines);

  std::string path_;
  FileDescriptor file_;
  std::string pending_;
  bool too_long_ = false;  // the line that is coming
  bool at_end_ = true;
};

class SoloRecord {
 public:
  struct Kept {  // a checkpoint
    std::string name;
    std::uint64_t report_seq = 0;
  };
  struct News {
    std::optional<Attempt> began = {};  // this attempt: all else is its own
    std::vector<ReportRecord> reports = {};
    std::vector<Kept> checkpoints = {};  // of these reports, or of earlier ones
    std::string result = {};             // JSON; empty: none
    std::optional<UserError> error = {};
  };

  /// Follow the attempts from the next one on.
  explicit SoloRecord(RunFolder folder);

  Attempt attempt() const { return attempt_; }
  /// Return what is new, of one attempt, and about a MiB at a time; nothing: there is no more now.
  std::optional<News> take();
  /// Ask the program to stop at its next report.
  void ask_to_stop() const;

 private:
  void follow(Attempt attempt);
  bool has(Attempt attempt) const;
  bool is_free(Attempt attempt) const;

  const RunFolder folder_;
  Attempt attempt_;
  std::optional<AppendedLines> reports_, sayings_;
  std::vector<std::string> said_;  // behind reports that may not have been read yet
};

}  // namespace train
