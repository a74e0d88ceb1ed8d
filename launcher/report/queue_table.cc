#include "launcher/report/queue_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "launcher/report/text_table.h"
#include "lib/base/json_text.h"
#include "lib/base/terminal_text.h"
#include "lib/base/time.h"

namespace train {
namespace {

/// A run, over all nodes that know it.
struct Entry {
  PoolRun run;                            // `claimed`: on all nodes
  std::vector<std::string> nodes = {};    // where it has something
  std::vector<std::string> kept_on = {};  // where room is kept for it, beside that
  int turn = 0;                           // among those that wait, from 1 on; 0: it does not
};

bool has_something(const Resources& amounts) {
  return amounts.cpu > 0 || amounts.gpu > 0 || amounts.memory_bytes > 0 || !amounts.custom.empty();
}

std::vector<Entry> entries_of(const std::vector<NodeRow>& rows) {
  std::map<std::string, Entry> entries;
  for (const NodeRow& row : rows) {
    for (const PoolRun& run : row.runs) {
      const auto [found, fresh] = entries.try_emplace(run.run_id, Entry{run});
      Entry& entry = found->second;
      if (has_something(run.claimed)) entry.nodes.push_back(row.name);
      if (run.keeps) entry.kept_on.push_back(row.name);
      if (fresh) continue;
      entry.run.claimed.cpu += run.claimed.cpu;
      entry.run.claimed.gpu += run.claimed.gpu;
      entry.run.claimed.memory_bytes += run.claimed.memory_bytes;
      if (run.workers > 0) entry.run.workers = run.workers, entry.run.place = run.place;
    }
  }
  std::vector<Entry> sorted;
  for (auto& [id, entry] : entries) sorted.push_back(std::move(entry));
  std::sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) {
    return goes_before(a.run.place, a.run.run_id, b.run.place, b.run.run_id);
  });
  int turn = 0;
  for (Entry& entry : sorted)
    if (!entry.run.place.placed) entry.turn = ++turn;
  return sorted;
}

std::int64_t waited_ms(const Entry& entry, std::int64_t now_ms) {
  const std::int64_t since = entry.run.place.since_ms;
  return since > 0 && since < now_ms ? now_ms - since : 0;
}

void put_names(JsonWriter& json, const char* key, const std::vector<std::string>& names) {
  json.key(key).array();
  for (const std::string& name : names) json.value(name);
  json.end();
}

std::string number(double value) { return value > 0 ? fmt::format("{:.6g}", value) : "-"; }

TableCells cells_of(const Entry& entry, std::int64_t now_ms) {
  const PoolRun& run = entry.run;
  const bool waits = entry.turn > 0;
  const std::int64_t ago = waited_ms(entry, now_ms);
  return {terminal_safe(run.run_name),
          run.owner.empty() ? "-" : terminal_safe(run.owner),
          !waits                   ? "has workers"
          : !entry.kept_on.empty() ? fmt::format("waits: {}", entry.turn)
                                   : "needs nodes",
          fmt::format("{}", run.place.priority),
          run.workers > 0 ? fmt::format("{}", run.workers) : "-",
          number(run.claimed.cpu),
          number(run.claimed.gpu),
          entry.nodes.empty() ? "-" : fmt::format("{}", entry.nodes.size()),
          ago > 0 ? format_duration(seconds(ago / 1000)) : "-"};
}

}  // namespace

std::string queue_text(const std::vector<NodeRow>& rows, std::int64_t now_ms) {
  constexpr std::size_t kTexts = 3;
  std::string text;
  const std::vector<Entry> entries = entries_of(rows);
  if (entries.empty()) {
    text = "no run has or wants anything on these nodes\n";
  } else {
    std::vector<TableCells> lines{
        {"run", "owner", "state", "priority", "workers", "cores", "GPUs", "nodes", "asked ago"}};
    for (const Entry& entry : entries) lines.push_back(cells_of(entry, now_ms));
    text = table_text(lines, kTexts);
  }
  for (const NodeRow& row : rows)
    if (!row.answered)
      text += fmt::format("{}: {}\n", terminal_safe(row.address), terminal_safe(problem_text(row)));
  return text;
}

std::string queue_json(const std::vector<NodeRow>& rows, std::int64_t now_ms) {
  JsonWriter json;
  json.object().key("runs").array();
  for (const Entry& entry : entries_of(rows)) {
    const PoolRun& run = entry.run;
    json.object().member("run", run.run_name).member("run_id", run.run_id);
    json.member("owner", run.owner).member("state", entry.turn > 0 ? "waiting" : "placed");
    if (entry.turn > 0) json.member("turn", entry.turn);
    json.member("priority", run.place.priority).member("workers", run.workers);
    json.member("owner_share", static_cast<double>(run.place.share) / 1000);
    json.member("asked_s_ago", waited_ms(entry, now_ms) / 1000);
    json.key("claimed").object();
    json.member("CPU", run.claimed.cpu).member("GPU", run.claimed.gpu);
    json.member("memory", run.claimed.memory_bytes).end();
    put_names(json, "nodes", entry.nodes);
    put_names(json, "room_kept_on", entry.kept_on);
    json.end();
  }
  json.end().key("unreachable").array();
  for (const NodeRow& row : rows)
    if (!row.answered) json.value(row.address);
  json.end().end();
  return std::move(json).take();
}

}  // namespace train
