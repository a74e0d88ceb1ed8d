// Follows the journal of a run: each record is read once, and the view of the run grows with it.
// One thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "launcher/dashboard/folder_files.h"
#include "launcher/dashboard/line_reader.h"
#include "launcher/dashboard/run_view.h"
#include "lib/storage/journal_format.h"

namespace train {

class JournalReader {
 public:
  explicit JournalReader(const FolderFiles& files) : files_(files) {}

  /// Read what is new.
  void update();
  const RunView& view() const { return view_; }
  /// Return why the journal cannot be read to its end, or "".
  const std::string& damage() const { return damage_; }

  /// Return up to `limit` records with a larger seq, in order. Reads them from the file.
  std::vector<JournalRecord> after(std::uint64_t seq, std::size_t limit) const;

 private:
  static constexpr std::uint64_t kMarkEvery = 256;  // records
  bool take(std::string_view line, std::uint64_t offset);
  void restart();

  const FolderFiles& files_;
  LineReader lines_{"events.jsonl", kJournalLineBytesMax};
  RunView view_;
  std::string damage_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> marks_;  // seq and offset, ascending
};

}  // namespace train
