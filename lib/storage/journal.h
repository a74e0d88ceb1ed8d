// The run's journal, events.jsonl, records events before the launcher acts on them. It is
// append-only, with a checksum per line and one fsync per group; replaying it rebuilds the
// controller. Only the run's owner (run_lock.h) opens it; anybody may read it. Calls block; one
// thread at a time. FORMAT.md section 4.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/storage/file_system.h"
#include "lib/storage/journal_format.h"

namespace train {

inline constexpr std::uint64_t kJournalBytesMax = 1ULL << 30;

/// Return the contents of a journal, for status and resume. Changes nothing. NotFound if there is
/// no journal.
Result<JournalReplay> read_journal(FileSystem& fs, const std::string& path);

struct JournalLimits {
  std::uint64_t bytes_max = kJournalBytesMax;  // of the file
};

/// Stores each group in a second place before the group counts. It receives `lines`, and a function
/// that returns the whole text including them. Its error becomes the group's error.
using JournalCopy = std::function<Result<Unit>(std::string_view lines,
                                               const std::function<Result<std::string>()>& whole)>;

class Journal {
 public:
  /// Open the journal; if there is none, the first record creates it. Opening writes the complete
  /// records to a new file that takes over the name, without a torn tail; an owner that was
  /// replaced keeps the old file. Corrupt names the line if there is damage before the tail.
  /// Fenced: another process is writing the journal.
  static Result<std::unique_ptr<Journal>> open(FileSystem& fs, std::string path,
                                               JournalLimits limits = {}, JournalCopy copy = {});

  /// Return what it contained when it was opened (damage: the torn tail that was left out).
  const JournalReplay& replayed() const { return replayed_; }
  Generation generation() const { return generation_; }

  /// Begin this incarnation: append {"event":"generation_taken", …about} under the next generation,
  /// and sync it. `after`: the generation is higher than this one, too. Call it once, before
  /// append().
  Result<Generation> take_generation(const std::string& time, const boost::json::object& about,
                                     Generation after = {});

  /// Append `events` as one group and sync it. Each group costs a sync, so the caller should
  /// collect events. After an error none of them counts, but a later call, with the same events or
  /// others, can succeed (if the disk is no longer full). If the process ends before a later call
  /// succeeds, the next owner may find a first part of the group. Fenced: another owner has
  /// replaced the file, and all later calls fail.
  Result<Unit> append(const std::vector<boost::json::object>& events, const std::string& time);

 private:
  Journal(FileSystem& fs, std::string path, JournalLimits limits, JournalCopy copy)
      : fs_(fs), path_(std::move(path)), limits_(limits), copy_(std::move(copy)) {}
  Result<Unit> load();
  Result<Unit> load_once();
  Result<Unit> append_group(const std::vector<boost::json::object>& events, const std::string& time,
                            Generation generation);
  Result<Unit> write_group(std::string_view lines);
  Result<Unit> copy_group(std::string_view lines);
  Result<Unit> write_anew_with(std::string_view lines);
  Result<Unit> write_anew(std::string_view text, std::optional<std::uint64_t> bytes_before);
  Result<Unit> replace_by(const std::string& temporary, std::string_view text,
                          std::optional<std::uint64_t> bytes_before);
  Result<Unit> check_name(std::optional<std::uint64_t> bytes) const;

  FileSystem& fs_;
  std::string path_;
  JournalLimits limits_;
  JournalCopy copy_;
  JournalReplay replayed_;
  std::unique_ptr<WritableFile> file_;
  std::uint64_t inode_ = 0;  // of the file with the journal's name; 0: there is none
  Generation generation_;
  std::uint64_t last_seq_ = 0;
  std::uint64_t good_bytes_ = 0;  // size of the synced groups
  bool generation_taken_ = false;
  // Never write to this file again; the next group goes to a new one.
  bool end_in_doubt_ = false;
};

}  // namespace train
