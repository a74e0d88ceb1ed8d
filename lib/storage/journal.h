// The run's journal, events.jsonl: what the launcher remembers before it acts. Append-only, a
// checksum a line, one fsync a group; replaying it rebuilds the controller. Only the run's owner
// (run_lock.h) opens it; anybody may read it. It blocks; one thread at a time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lib/storage/file_system.h"
#include "lib/storage/journal_format.h"

namespace train {

inline constexpr std::uint64_t kJournalBytesMax = 1ULL << 30;

/// What a journal holds, for status, dashboard and resume. Changes nothing. NotFound where there is
/// none.
Result<JournalReplay> read_journal(FileSystem& fs, const std::string& path);

class Journal {
 public:
  /// Open it, or create an empty one. A torn tail is cut off; damage before the tail is Corrupt and
  /// names the line. `anew`: write it to a new file that takes the name, so that an owner that was
  /// replaced appends to nothing.
  static Result<std::unique_ptr<Journal>> open(FileSystem& fs, std::string path, bool anew = false);

  /// What was in it when it was opened (damage: the torn tail that was cut off).
  const JournalReplay& replayed() const { return replayed_; }
  Epoch epoch() const { return epoch_; }

  /// Begin this incarnation: append {"event":"epoch_taken", …about} under the next epoch, synced.
  /// Once, before append().
  Result<Epoch> take_epoch(const std::string& time, const boost::json::object& about);

  /// Append `events` as one group and sync: they are all remembered when it returns. Several small
  /// groups cost a sync each, so the caller collects what waits. After an error none of them
  /// counts; a later call may work again (a full disk that was freed), unless the file could not be
  /// brought back to its last good byte: then every call fails.
  Result<Unit> append(const std::vector<boost::json::object>& events, const std::string& time);

 private:
  Journal(FileSystem& fs, std::string path, JournalReplay replayed);
  Result<Unit> append_group(const std::vector<boost::json::object>& events, const std::string& time,
                            Epoch epoch);
  Result<Unit> write_group(std::string_view lines);
  Result<Unit> rewrite(std::string_view more);

  FileSystem& fs_;
  std::string path_;
  JournalReplay replayed_;
  std::unique_ptr<WritableFile> file_;
  Epoch epoch_;
  std::uint64_t last_seq_ = 0;
  std::uint64_t good_bytes_ = 0;  // synced
  bool epoch_taken_ = false;
  bool lost_ = false;  // the file's end is unknown
};

}  // namespace train
