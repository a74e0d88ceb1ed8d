// The text of the journal: one line per record, and the rules for which part of a file's bytes can
// be believed. Pure. FORMAT.md section 4.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kJournalLineBytesMax = 1 << 20;
inline constexpr std::string_view kGenerationTaken = "generation_taken";

struct JournalRecord {
  std::uint64_t seq = 0;
  std::uint64_t group = 0;  // seq of the first record synced together with this one
  Generation generation = {};
  std::string time = {};           // RFC 3339, for people
  boost::json::object event = {};  // without the members above
  bool operator==(const JournalRecord&) const = default;
};

struct JournalDamage {
  std::uint64_t line = 0;    // from 1
  std::uint64_t offset = 0;  // of the line's first byte
  std::string what = {};     // "xxh3 is …, expected …"
  bool torn_tail = false;    // never acknowledged: cut it off. Else acknowledged records are lost
  bool operator==(const JournalDamage&) const = default;
};

struct JournalReplay {
  std::vector<JournalRecord> records;   // the longest valid prefix
  std::uint64_t valid_bytes = 0;        // its length in the file
  std::optional<JournalDamage> damage;  // what follows it, if anything does

  Generation generation() const {
    return records.empty() ? Generation{} : records.back().generation;
  }
  std::uint64_t last_seq() const { return records.empty() ? 0 : records.back().seq; }
};

/// Format one line with its newline. InvalidArgument when the event uses a reserved member, is too
/// long or is not UTF-8.
Result<std::string> format_record(const JournalRecord& record);
/// Check that format_record() takes the event, whatever its place in the journal.
Result<Unit> check_event(const boost::json::object& event);
/// Parse one line without its newline. Checks the checksum and the shape, not the line's
/// neighbours. The error gives the reason in words.
Result<JournalRecord> parse_record(std::string_view line);
/// Replay a journal's text. Never fails: any bytes are some prefix of valid records, perhaps
/// followed by damage.
JournalReplay replay_journal(std::string_view text);

}  // namespace train
