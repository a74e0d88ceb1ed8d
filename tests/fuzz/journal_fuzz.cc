// Replays what a disk can hold instead of a journal: arbitrary bytes, lines with valid checksums
// around arbitrary bytes, and a mutated journal. libFuzzer; built with clang and TRAIN_FUZZ=ON, see
// docs/testing.md.
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "lib/storage/digest.h"
#include "lib/storage/journal_format.h"

namespace {

using namespace train;
namespace json = boost::json;

void require(bool holds) {
  if (!holds) std::abort();
}

bool takes_generation(const JournalRecord& record) {
  const json::value* event = record.event.if_contains("event");
  return event != nullptr && *event == json::value(kGenerationTaken);
}

/// Boost.JSON 1.81 reads the last bit of some doubles wrong.
bool has_double(const json::value& value) {
  if (value.is_double()) return true;
  if (value.is_array()) {
    for (const json::value& element : value.get_array())
      if (has_double(element)) return true;
  } else if (value.is_object()) {
    for (const auto& member : value.get_object())
      if (has_double(member.value())) return true;
  }
  return false;
}

/// Replay arbitrary bytes, and check what must hold for the result.
JournalReplay replay(std::string_view text) {
  JournalReplay all = replay_journal(text);
  require(all.valid_bytes <= text.size());
  require(all.damage.has_value() == (all.valid_bytes < text.size()));
  if (all.damage) {
    require(all.damage->offset == all.valid_bytes && !all.damage->what.empty());
    require(all.damage->line == all.records.size() + 1);
  }
  // The accepted prefix, replayed alone, is accepted completely and gives the same records.
  const JournalReplay prefix = replay_journal(text.substr(0, all.valid_bytes));
  require(!prefix.damage && prefix.records == all.records);
  Generation generation;
  std::uint64_t seq = 0, group = 0;
  std::string again;  // records can be written again, and then read back as the same
  for (const JournalRecord& record : all.records) {
    require(record.seq == ++seq);
    require(record.group == seq || record.group == group);
    group = record.group;
    require(record.generation == (takes_generation(record) ? generation.next() : generation));
    require(record.generation != Generation{});
    generation = record.generation;
    const auto line = format_record(record);
    require(!line.has_error());
    again += *line;
  }
  const JournalReplay twice = replay_journal(again);
  require(!twice.damage && twice.records.size() == all.records.size());
  for (std::size_t i = 0; i < all.records.size(); ++i)
    require(twice.records[i] == all.records[i] || has_double(all.records[i].event));
  require(all.generation() == generation && all.last_seq() == seq);
  return all;
}

/// Take each line as a body, and add the checksum without which the replay ignores it.
std::string with_checksums(std::string_view bodies) {
  std::string text;
  while (!bodies.empty()) {
    const std::size_t end = std::min(bodies.find('\n'), bodies.size());
    const std::string_view body = bodies.substr(0, end);
    text += fmt::format("{},\"xxh3\":\"{:016x}\"}}\n", body, digest64_of(body));
    bodies.remove_prefix(std::min(end + 1, bodies.size()));
  }
  return text;
}

/// Reads numbers from the input; returns 0 when it is used up.
class Script {
 public:
  explicit Script(std::string_view bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  std::size_t below(std::size_t limit) {
    std::size_t value = 0;
    for (int i = 0; i < 2 && !bytes_.empty(); ++i) {
      value = value << 8 | static_cast<std::uint8_t>(bytes_.front());
      bytes_.remove_prefix(1);
    }
    return limit == 0 ? 0 : value % limit;
  }

 private:
  std::string_view bytes_;
};

/// Write a valid journal of groups, epochs and texts, as the script says.
std::vector<std::string> write_lines(Script& script) {
  std::vector<std::string> lines;
  Generation generation;
  std::uint64_t group = 1;
  const std::size_t count = script.below(12);
  while (lines.size() < count) {
    const std::uint64_t seq = lines.size() + 1;
    const std::size_t what = script.below(256);
    const bool takes = seq == 1 || what % 8 == 0;
    if (takes) generation = generation.next();
    if (takes || what % 4 != 1) group = seq;
    json::object event = {{"event", takes ? kGenerationTaken : std::string_view("reported")},
                          {"rank", static_cast<std::int64_t>(what) - 100}};
    if (what % 16 > 12) event["text"] = std::string(what, static_cast<char>(what % 128));
    lines.push_back(format_record({seq, group, generation, "t", event}).value());
  }
  return lines;
}

/// Mutate a valid journal. The replay must give no more than the original records, unchanged.
void mutate(Script script) {
  const std::vector<std::string> lines = write_lines(script);
  std::vector<std::string> mutated = lines;
  std::string text;
  const auto position = [&] {
    return mutated.begin() + static_cast<long>(script.below(mutated.size()));
  };
  std::size_t cut = std::string::npos;
  std::vector<std::pair<std::size_t, std::size_t>> flips;
  for (int steps = 0; steps < 4 && !script.empty() && !mutated.empty(); ++steps)
    switch (script.below(6)) {
      case 0:
        mutated.erase(position());
        break;
      case 1: {
        const std::string line = *position();
        mutated.insert(position(), line);
        break;
      }
      case 2:
        std::iter_swap(position(), position());
        break;
      case 3:
        cut = script.below(1 << 16);
        break;
      case 4:
        flips.emplace_back(script.below(1 << 16), script.below(8));
        break;
      default:
        position()->insert(std::size_t{0}, script.below(600), '\0');
        break;
    }
  for (const std::string& line : mutated) text += line;
  for (const auto& [at, bit] : flips)
    if (!text.empty())
      text[at % text.size()] = static_cast<char>(text[at % text.size()] ^ (1 << bit));
  if (cut != std::string::npos) text.resize(cut % (text.size() + 1));

  const JournalReplay found = replay(text);
  std::string again;
  for (const JournalRecord& record : found.records) again += format_record(record).value();
  require(again == text.substr(0, found.valid_bytes));
  std::string written;
  for (const std::string& line : lines) written += line;
  // Check for a prefix of what was written: no record differs, none is skipped.
  require(written.starts_with(again));
  if (text.starts_with(written)) require(again == written);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      replay(bytes);
      break;
    case 1:
      replay(with_checksums(bytes));
      break;
    default:
      mutate(Script(bytes));
  }
  return 0;
}
