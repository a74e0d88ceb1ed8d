#include "lib/flight/flight_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"
#include "lib/flight/pickle.h"

namespace train {
namespace {

using Index = Pickle::Index;

constexpr std::size_t kNameBytesMax = 64;
constexpr std::size_t kTensorsMax = 4, kDimensionsMax = 8;  // of a call that are told
constexpr std::size_t kEntriesMax = 1u << 16, kGroupsMax = 128;
constexpr std::size_t kSizesBytesMax = 200;

/// Reads one value of a dict of the recorder; a value of another kind is as if it were missing.
class Members {
 public:
  Members(const Pickle& pickle, Index dict) : pickle_(pickle), dict_(dict) {}
  std::optional<std::int64_t> integer(std::string_view key) const {
    const auto found = pickle_.find(dict_, key);
    return found ? pickle_.integer(*found) : std::nullopt;
  }
  bool is_true(std::string_view key) const {
    const auto found = pickle_.find(dict_, key);
    return found && pickle_.is_true(*found);
  }
  std::string text(std::string_view key) const {
    const auto found = pickle_.find(dict_, key);
    return found ? shown(*found) : std::string();
  }
  /// Refers to the pickle: a few bytes can make many entries of a long list.
  const std::vector<Index>& items(std::string_view key) const {
    static const std::vector<Index> kNone;
    const auto found = pickle_.find(dict_, key);
    return found && pickle_.kind(*found) == Pickle::Kind::List ? pickle_.items(*found) : kNone;
  }
  std::string shown(Index value) const {
    return terminal_safe(utf8_text(pickle_.text(value), kNameBytesMax));
  }

 private:
  const Pickle& pickle_;
  const Index dict_;
};

/// Return "[4, 2] [8]" of a list of tensors' sizes.
std::string shapes_in(const Pickle& pickle, const std::vector<Index>& tensors) {
  std::string text;
  for (std::size_t i = 0; i < std::min(tensors.size(), kTensorsMax); ++i) {
    const std::vector<Index>& sizes = pickle.items(tensors[i]);
    std::string shape;
    for (std::size_t k = 0; k < std::min(sizes.size(), kDimensionsMax); ++k)
      shape += fmt::format("{}{}", k == 0 ? "" : ", ", pickle.integer(sizes[k]).value_or(0));
    text += fmt::format("{}[{}{}]", i == 0 ? "" : " ", shape,
                        sizes.size() > kDimensionsMax ? ", ..." : "");
  }
  if (tensors.size() > kTensorsMax)
    text += fmt::format(" and {} more", tensors.size() - kTensorsMax);
  return text;
}

std::string sizes_of(const Pickle& pickle, const Members& entry) {
  const std::string in = shapes_in(pickle, entry.items("input_sizes"));
  const std::string out = shapes_in(pickle, entry.items("output_sizes"));
  const std::vector<Index>& types = entry.items("input_dtypes");
  std::string text = types.empty() ? "" : entry.shown(types.front()) + " ";
  text += in == out ? in : in + " -> " + out;
  if (text.size() > kSizesBytesMax) text = text.substr(0, kSizesBytesMax) + "...";
  return text;
}

/// Return "default_pg (0)", as people know a group.
std::string group_of(const Members& entry) {
  const std::vector<Index>& names = entry.items("process_group");
  const std::string name = names.empty() ? "" : entry.shown(names[0]);
  const std::string description = names.size() < 2 ? "" : entry.shown(names[1]);
  if (description.empty() || description == "undefined") return name.empty() ? "a group" : name;
  return name.empty() ? description : fmt::format("{} ({})", description, name);
}

}  // namespace

Result<FlightRecord> read_flight_record(std::string_view bytes, std::size_t calls_max) {
  TRY(const Pickle pickle, Pickle::read(bytes));
  const Members whole(pickle, pickle.root());
  if (!whole.text("version").starts_with("2."))
    return Error{Errc::Corrupt, fmt::format("a flight record of version '{}': 2.x is read",
                                            whole.text("version"))};
  FlightRecord record;
  std::map<std::int64_t, std::string> names;  // of groups, by pg_id
  std::size_t calls = 0;
  const std::vector<Index>& entries = whole.items("entries");
  for (std::size_t i = 0; i < std::min(entries.size(), kEntriesMax); ++i) {
    const Members entry(pickle, entries[i]);
    const auto sequence = entry.integer("collective_seq_id");
    if (!sequence || entry.is_true("is_p2p")) continue;
    const std::string name = group_of(entry);
    if (!record.groups.contains(name) && record.groups.size() == kGroupsMax) continue;
    if (const auto id = entry.integer("pg_id")) names.try_emplace(*id, name);
    FlightGroup& group = record.groups[name];
    std::string call = entry.text("profiling_name");
    if (const std::size_t colon = call.find(':'); colon != call.npos) call.erase(0, colon + 1);
    // Of several operations in one call (coalesced), the first stands for it.
    calls +=
        group.calls.try_emplace(*sequence, FlightCall{std::move(call), sizes_of(pickle, entry)})
            .second;
    if (calls > calls_max && group.calls.size() > 1) {
      group.calls.erase(group.calls.begin());
      --calls;
    }
    group.made = std::max(group.made, *sequence);
    if (entry.text("state") == "completed") group.completed = std::max(group.completed, *sequence);
  }
  if (const auto status = pickle.find(pickle.root(), "pg_status")) {
    for (const auto& [id, name] : names) {
      const auto found = pickle.find(*status, fmt::to_string(id));
      if (!found) continue;
      const Members group(pickle, *found);
      FlightGroup& known = record.groups[name];
      known.made = std::max(known.made, group.integer("last_enqueued_collective").value_or(0));
      known.completed =
          std::max(known.completed, group.integer("last_completed_collective").value_or(0));
    }
  }
  return record;
}

}  // namespace train
