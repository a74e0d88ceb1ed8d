#include "lib/storage/journal_format.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <limits>

#include "lib/storage/digest.h"
#include "lib/storage/metrics_json.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr std::string_view kCheckKey = ",\"xxh3\":\"";
constexpr std::size_t kCheckChars = 16;
constexpr std::string_view kLineEnd = "\"}";

std::string check_of(std::string_view body) { return fmt::format("{:016x}", digest64_of(body)); }

/// Return member `key` of `object` if it is a whole number.
std::optional<std::uint64_t> take_number(json::object& object, std::string_view key) {
  const json::value* value = object.if_contains(key);
  if (value == nullptr || !value->is_int64() || value->get_int64() < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value->get_int64());
}

bool takes_generation(const JournalRecord& record) {
  const json::value* event = record.event.if_contains("event");
  return event != nullptr && event->is_string() &&
         std::string_view(event->get_string()) == kGenerationTaken;
}

/// Return why a valid record cannot follow `replay`; empty if it can.
std::string misplaced(const JournalReplay& replay, const JournalRecord& record) {
  if (record.seq != replay.last_seq() + 1)
    return fmt::format("seq is {}, expected {}", record.seq, replay.last_seq() + 1);
  const bool joins_group = !replay.records.empty() && record.group == replay.records.back().group;
  if (record.group != record.seq && !joins_group)
    return fmt::format("group is {}, which is not the group before", record.group);
  const Generation before = replay.generation();
  if (before == Generation{} && !takes_generation(record))
    return "no generation was taken before it";
  // That of a run which takes over another's workers comes after the other's.
  if (before == Generation{} && record.generation > before) return {};
  if (record.generation == (takes_generation(record) ? before.next() : before)) return {};
  return fmt::format("generation is {} after generation {}", record.generation.value, before.value);
}

/// Return whether a record of a later group follows. Such a group begins only after everything
/// before it was synced.
bool acknowledged_after(std::string_view text, std::uint64_t first_lost_seq) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return false;
    if (const auto record = parse_record(text.substr(0, end));
        !record.has_error() && record->group > first_lost_seq)
      return true;
    text.remove_prefix(end + 1);
  }
  return false;
}

}  // namespace

Result<JournalRecord> parse_record(std::string_view line) {
  const auto bad = [](std::string why) { return Error{Errc::Corrupt, std::move(why)}; };
  const std::size_t tail = kCheckKey.size() + kCheckChars + kLineEnd.size();
  if (line.size() < tail || !line.ends_with(kLineEnd) ||
      line.substr(line.size() - tail, kCheckKey.size()) != kCheckKey)
    return bad("no xxh3 at the end");
  if (line.size() >= kJournalLineBytesMax)
    return bad(fmt::format("a line of {} bytes", line.size()));
  const std::string_view body = line.substr(0, line.size() - tail);
  const std::string found = check_of(body);
  const std::string_view expected = line.substr(body.size() + kCheckKey.size(), kCheckChars);
  if (found != expected) return bad(fmt::format("its xxh3 does not match (found {})", found));

  json::error_code error;
  json::value root = json::parse(std::string(body) + "}", error);
  if (error || !root.is_object()) return bad("not a JSON object");
  json::object& members = root.get_object();
  JournalRecord record;
  const auto seq = take_number(members, "seq");
  const auto group = take_number(members, "group");
  const auto generation = take_number(members, "generation");
  const json::value* time = members.if_contains("t");
  if (!seq || !group || !generation || time == nullptr || !time->is_string() || *group == 0 ||
      *group > *seq)
    return Error{Errc::Protocol,
                 "'seq', 'group', 'generation' or 't' is missing or wrong: another version of "
                 "trainrun wrote it"};
  record.seq = *seq;
  record.group = *group;
  record.generation = Generation{*generation};
  record.time = std::string(time->get_string());
  for (const auto& member : members) {
    const std::string_view key = member.key();
    if (key == "xxh3") return bad("two members 'xxh3'");
    if (key == "seq" || key == "group" || key == "generation" || key == "t") continue;
    json::value value = member.value();
    drop_non_finite(value);  // Boost reads 0e3020 as NaN
    record.event[key] = std::move(value);
  }
  return record;
}

Result<std::string> format_record(const JournalRecord& record) {
  std::string line =
      fmt::format("{{\"seq\":{},\"group\":{},\"generation\":{},\"t\":{}", record.seq, record.group,
                  record.generation.value, json::serialize(record.time));
  for (const auto& member : record.event) {
    const std::string_view key = member.key();
    if (key == "seq" || key == "group" || key == "generation" || key == "t" || key == "xxh3")
      return Error{Errc::InvalidArgument,
                   fmt::format("journal: an event may not have a member '{}' of its own", key)};
    json::value value = member.value();
    drop_non_finite(value);
    line += fmt::format(",{}:{}", json::serialize(std::string(key)), json::serialize(value));
  }
  line += fmt::format("{}{}{}", kCheckKey, check_of(line), kLineEnd);
  if (line.size() >= kJournalLineBytesMax)
    return Error{Errc::ResourceExhausted, fmt::format("journal: a record of {} bytes, more than {}",
                                                      line.size(), kJournalLineBytesMax)};
  // Fail now, before the record is acknowledged, if it cannot be read back (a string that is not
  // UTF-8).
  TRY_VOID(parse_record(line));
  return line + "\n";
}

Result<Unit> check_event(const json::object& event) {
  constexpr auto kLargest = std::numeric_limits<std::int64_t>::max();
  constexpr std::string_view kTime = "2026-11-21T09:38:00.123456789Z";
  TRY_VOID(format_record({.seq = kLargest,
                          .group = kLargest,
                          .generation = Generation{kLargest},
                          .time = std::string(kTime),
                          .event = event}));
  return Unit{};
}

JournalReplay replay_journal(std::string_view text) {
  JournalReplay replay;
  std::uint64_t line_number = 0;
  while (replay.valid_bytes < text.size()) {
    ++line_number;
    const std::string_view rest = text.substr(replay.valid_bytes);
    const std::size_t end = rest.find('\n');
    JournalDamage damage{
        .line = line_number, .offset = replay.valid_bytes, .what = {}, .torn_tail = true};
    if (end == std::string_view::npos) {
      damage.what = fmt::format("{} bytes without a newline", rest.size());
      replay.damage = std::move(damage);
      return replay;
    }
    auto record = parse_record(rest.substr(0, end));
    if (record.has_error()) {
      damage.what = record.error().message;
      damage.torn_tail = record.error().code != Errc::Protocol &&
                         !acknowledged_after(rest.substr(end + 1), replay.last_seq() + 1);
      replay.damage = std::move(damage);
      return replay;
    }
    if (damage.what = misplaced(replay, *record); !damage.what.empty()) {
      // The rest of a group that lost its first lines in the same power cut is also a torn tail.
      damage.torn_tail = record->seq > replay.last_seq() + 1 &&
                         record->group <= replay.last_seq() + 1 &&
                         !acknowledged_after(rest.substr(end + 1), replay.last_seq() + 1);
      replay.damage = std::move(damage);
      return replay;
    }
    replay.records.push_back(std::move(*record));
    replay.valid_bytes += end + 1;
  }
  return replay;
}

}  // namespace train
