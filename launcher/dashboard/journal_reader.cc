#include "launcher/dashboard/journal_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace train {

void JournalReader::update() {
  (void)lines_.update(
      files_, std::numeric_limits<std::uint64_t>::max(),
      [&](std::string_view line, std::uint64_t offset) { return take(line, offset); },
      [&] { restart(); });
  if (lines_.failed()) damage_ = "a line of events.jsonl is too long";
}

bool JournalReader::take(std::string_view line, std::uint64_t offset) {
  const auto record = parse_record(line);
  if (!record || record->seq != view_.last_seq + 1) {
    damage_ = fmt::format("events.jsonl cannot be read behind record {}: {}", view_.last_seq,
                          record ? "the next one is out of sequence" : record.error().message);
    return false;
  }
  damage_.clear();
  if ((record->seq - 1) % kMarkEvery == 0) marks_.emplace_back(record->seq, offset);
  view_.add(*record);
  return true;
}

void JournalReader::restart() {
  view_ = RunView();
  damage_.clear();
  marks_.clear();
}

std::vector<JournalRecord> JournalReader::after(std::uint64_t seq, std::size_t limit) const {
  std::vector<JournalRecord> records;
  if (seq >= view_.last_seq || limit == 0) return records;
  auto mark = std::upper_bound(marks_.begin(), marks_.end(),
                               std::pair(seq + 1, std::numeric_limits<std::uint64_t>::max()));
  if (mark == marks_.begin()) return records;
  std::uint64_t offset = std::prev(mark)->second;
  while (records.size() < limit && offset < lines_.offset()) {
    auto read = files_.read("events.jsonl", offset, kJournalLineBytesMax + 1);
    if (!read) break;
    std::string_view rest = std::string_view(read->text).substr(0, lines_.offset() - offset);
    const std::size_t size = rest.size();
    for (std::size_t end = rest.find('\n'); end != rest.npos && records.size() < limit;
         end = rest.find('\n')) {
      auto record = parse_record(rest.substr(0, end));
      if (!record) return records;  // the file was replaced meanwhile
      if (record->seq > seq) records.push_back(std::move(*record));
      rest.remove_prefix(end + 1);
    }
    if (rest.size() == size) break;
    offset += size - rest.size();
  }
  return records;
}

}  // namespace train
