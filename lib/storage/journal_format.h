// The text of the journal, one line per record, and the rules about which part of a file's bytes is
// valid. Pure. FORMAT.md section 4.
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
  std::uint64_t group = 0;  // seq of the first record that was synced together with this one
  Generation generation = {};
  std::string time = {};           // RFC 3339, for people
  boost::json::object event = {};  // without the members above
  bool operator==(const JournalRecord&) const = default;
};

struct JournalDamage {
  std::uint64_t line = 0;    // from 1
  std::uint64_t offset = 0;  // of the line's first byte
  std::string what = {};     // "its xxh3 does not match (found …)"
  // True: it was never acknowledged, so cut it off. False: acknowledged records are lost.
  bool torn_tail = false;
  bool operator==(const JournalDamage&) const = default;
};

struct JournalReplay {
  std::vector<JournalRecord> records;   // the longest valid prefix
  std::uint64_t valid_bytes = 0;        // its length in the file
  std::optional<JournalDamage> damage;  // the damage after it, if any

  Generation generation() const {
    return records.empty() ? Generation{} : records.back().generation;
  }
  std::uint64_t last_seq() const { return records.empty() ? 0 : records.back().seq; }
};

/// Format one line with its newline. Fails if the event uses a reserved member (InvalidArgument),
/// is too long (ResourceExhausted) or is not UTF-8 (Corrupt).
Result<std::string> format_record(const JournalRecord& record);
/// Check that format_record() accepts the event at any place in the journal.
Result<Unit> check_event(const boost::json::object& event);
/// Parse one line without its newline. Checks the checksum and the form, not the neighbouring
/// lines. The error gives the reason in words.
Result<JournalRecord> parse_record(std::string_view line);
/// Replay a journal's text. Never fails: any bytes are a (perhaps empty) prefix of valid records,
/// perhaps followed by damage.
JournalReplay replay_journal(std::string_view text);

}  // namespace train
