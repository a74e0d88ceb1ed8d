#include "launcher/dashboard/run_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json/serialize.hpp>
#include <charconv>
#include <cmath>
#include <utility>

#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_row.h"
#include "launcher/report/rank_set.h"
#include "lib/base/rank_ranges.h"
#include "lib/base/time.h"

namespace train {
namespace {

using WallTime = std::chrono::system_clock::time_point;
constexpr std::size_t kStragglersMax = 1000;  // that are listed

std::optional<double> known(double value) {
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}
std::optional<std::int64_t> known_whole(double value) {
  if (!std::isfinite(value) || std::abs(value) > 9e18) return std::nullopt;
  return static_cast<std::int64_t>(std::llround(value));
}

/// Reads a row of a table of samples; nothing if there is no such row.
class SampleRow {
 public:
  SampleRow(const SampleTable* table, std::string_view name) : table_(table) {
    if (table == nullptr) return;
    const auto found = std::find(table->rows.begin(), table->rows.end(), name);
    if (found == table->rows.end())
      table_ = nullptr;
    else
      row_ = static_cast<std::size_t>(found - table->rows.begin());
  }
  explicit operator bool() const { return table_ != nullptr; }
  std::optional<double> number(std::string_view field) const {
    return table_ == nullptr ? std::nullopt : known(table_->number(field, row_));
  }
  std::optional<std::int64_t> whole(std::string_view field) const {
    return table_ == nullptr ? std::nullopt : known_whole(table_->number(field, row_));
  }
  std::string text(std::string_view field) const {
    return table_ == nullptr ? std::string() : std::string(table_->text(field, row_));
  }

 private:
  const SampleTable* table_;
  std::size_t row_ = 0;
};

std::optional<double> seconds_from(const std::string& begin, WallTime end) {
  if (begin.empty()) return std::nullopt;
  return std::max(0.0, std::chrono::duration<double>(end - parse_utc(begin)).count());
}

const boost::json::object* attempt_in(const boost::json::object& run_json, std::int64_t attempt) {
  const auto* attempts = run_json.if_contains("attempts");
  if (attempts == nullptr || !attempts->is_array()) return nullptr;
  for (const boost::json::value& one : attempts->get_array())
    if (one.is_object() && whole_member(one.get_object(), "attempt") == attempt)
      return one.if_object();
  return nullptr;
}

void put_attempt(JsonWriter& json, const AttemptView& attempt, const boost::json::object* ended,
                 const TimeAccounts& time, WallTime now) {
  json.object().member("attempt", attempt.attempt).member("world_size", attempt.world_size);
  json.key("nodes").array();
  for (const NodePlace& node : attempt.nodes) {
    json.object().member("name", node.name).member("workers", node.workers);
    json.member("first_rank", node.first_rank).end();
  }
  json.end().text_or_null("began", attempt.began).text_or_null("ended", attempt.ended);
  put(json, "duration_s",
      seconds_from(attempt.began, attempt.ended.empty() ? now : parse_utc(attempt.ended)));
  json.member("failed", attempt.failed).text_or_null("cause", attempt.cause);
  json.text_or_null("failure", attempt.failure);
  put(json, "root_rank", attempt.root_rank);
  const NodePlace* node = attempt.root_rank ? attempt.node_of(*attempt.root_rank) : nullptr;
  json.text_or_null("node", node != nullptr ? node->name : "");
  json.text_or_null("restored", attempt.restored).member("checkpoints", attempt.checkpoints);
  put(json, "redone_reports", ended ? whole_member(*ended, "redone_reports") : std::nullopt);
  put(json, "lost_s", ended ? number_member(*ended, "lost_s") : std::nullopt);
  json.key("goodput");
  put_time(json, time);
  json.end();
}

std::string state_of_rank(const RankFacts& facts, std::int64_t rank, const SampleRow& sample,
                          const RankFiles& files) {
  const bool failed =
      facts.attempt->failed && (facts.attempt->root_rank == rank || !files.error.empty());
  if (failed) return "failed";
  if (!facts.attempt->ended.empty()) return "ended";
  if (!facts.live) return "unknown";
  if (facts.run_state == "preparing" || facts.run_state == "starting") return "starting";
  return sample || (facts.reports != nullptr &&
                    facts.reports->contains(static_cast<std::int32_t>(rank)))
             ? "running"
             : "unknown";
}

/// Add what the GPUs that only this rank uses do.
void put_gpus_of(JsonWriter& json, const SampleTable* gpus, std::int64_t rank) {
  std::vector<std::string> names;
  double use = 0, used = 0, memory = 0;
  for (std::size_t i = 0; gpus != nullptr && i < gpus->rows.size(); ++i) {
    const auto ranks = RankSet::parse(gpus->text("ranks", i));
    if (!ranks || !ranks->contains(static_cast<std::int32_t>(rank))) continue;
    names.push_back(gpus->rows[i]);
    use += gpus->number("use", i);
    used += gpus->number("memory_used", i);
    memory += gpus->number("memory", i);
  }
  json.key("gpus");
  if (gpus == nullptr) {
    json.null();
  } else {
    json.array();
    for (const std::string& name : names) json.value(name);
    json.end();
  }
  const bool any = !names.empty();
  put(json, "gpu_utilization_ratio",
      any ? known(use / static_cast<double>(names.size())) : std::nullopt);
  put(json, "gpu_memory_bytes", any ? known_whole(used) : std::nullopt);
  put(json, "gpu_memory_total_bytes", any ? known_whole(memory) : std::nullopt);
}

void put_error_of(JsonWriter& json, const boost::json::object& error) {
  json.key("error");
  if (error.empty()) {
    json.null();
    return;
  }
  // error.json has torchelastic's format, and our keys (summary_json.cc).
  json.object();
  json.text_or_null("cause", text_member(error, "cause"));
  const boost::json::object* thrown = object_member(error, "error");
  for (const char* name : {"type", "what", "stack"})
    json.text_or_null(name, thrown != nullptr ? text_member(*thrown, name) : "");
  put(json, "exit_code", whole_member(error, "exit_code"));
  json.text_or_null("signal", text_member(error, "signal")).end();
}

void put_gpu(JsonWriter& json, const SampleTable& gpus, std::size_t i) {
  const std::string& row = gpus.rows[i];
  const std::size_t slash = row.rfind('/');
  std::int64_t index = 0;
  (void)std::from_chars(row.data() + slash + 1, row.data() + row.size(), index);
  json.object().member("index", index).text_or_null("name", gpus.text("name", i));
  json.text_or_null("state", gpus.text("state", i));
  put(json, "utilization_ratio", known(gpus.number("use", i)));
  put(json, "memory_used_bytes", known_whole(gpus.number("memory_used", i)));
  put(json, "memory_total_bytes", known_whole(gpus.number("memory", i)));
  put(json, "power_watts", known(gpus.number("power_w", i)));
  put(json, "power_limit_watts", known(gpus.number("power_limit_w", i)));
  put(json, "temperature_celsius", known(gpus.number("temperature_c", i)));
  put(json, "ecc_errors", known_whole(gpus.number("ecc_uncorrected", i)));
  put(json, "xid", known_whole(gpus.number("last_xid", i)));
  const std::string_view foreign = gpus.text("foreign", i);
  json.text_or_null("ranks", gpus.text("ranks", i)).text_or_null("foreign", foreign);
  json.member("foreign_processes",
              foreign.empty() ? 0 : 1 + std::count(foreign.begin(), foreign.end(), ','));
  json.text_or_null("slowed_by", gpus.text("slowed_by", i)).end();
}

struct NodeRow {
  std::string name;
  const NodePlace* place = nullptr;  // in the newest attempt
};

std::vector<NodeRow> nodes_of(const RunView& view) {
  std::vector<NodeRow> rows;
  std::map<std::string, std::size_t> seen;
  for (auto attempt = view.attempts.rbegin(); attempt != view.attempts.rend(); ++attempt) {
    for (const NodePlace& node : attempt->nodes) {
      if (rows.size() == RunView::kNodesMax || !seen.emplace(node.name, rows.size()).second)
        continue;
      rows.push_back({node.name, attempt == view.attempts.rbegin() ? &node : nullptr});
    }
  }
  for (const auto& [name, why] : view.unused_nodes)  // also those that no attempt has used
    if (rows.size() < RunView::kNodesMax && !seen.contains(name)) rows.push_back({name, nullptr});
  return rows;
}

void put_node(JsonWriter& json, const RunView& view, const NodeRow& node, bool live,
              const SampleTable* nodes, const SampleTable* gpus) {
  const SampleRow sample(live ? nodes : nullptr, node.name);
  const bool in_use = node.place != nullptr && live;
  json.object().member("name", node.name).key("address").null().member("in_use", in_use);
  put(json, "workers", node.place ? std::optional(node.place->workers) : std::nullopt);
  const bool any = node.place != nullptr && node.place->workers > 0;
  const std::int64_t first = any ? node.place->first_rank : 0;
  const std::int64_t last = any ? first + node.place->workers - 1 : 0;
  json.text_or_null("ranks", !any            ? ""
                             : first == last ? fmt::format("{}", first)
                                             : fmt::format("{}-{}", first, last));
  const auto failures = view.node_failures.find(node.name);
  const auto unused = view.unused_nodes.find(node.name);
  const bool is_unused = unused != view.unused_nodes.end();
  json.member("state", is_unused ? unused->second.state : sample ? "up" : "unknown");
  json.text_or_null("reason", is_unused ? unused->second.reason : "");
  json.text_or_null("state_since", is_unused ? unused->second.since : "");
  json.member("failures", failures == view.node_failures.end() ? 0 : failures->second);
  json.key("version").null();
  put(json, "cpu_count", sample.whole("cpus"));
  put(json, "cpu_used_cores", sample.number("cpu"));
  put(json, "load1", sample.number("load"));
  const auto memory = sample.whole("memory"), used = sample.whole("memory_used");
  put(json, "memory_total_bytes", memory);
  put(json, "memory_available_bytes",
      memory && used ? std::optional(*memory - *used) : std::nullopt);
  put(json, "disk_total_bytes", sample.whole("run_size"));
  put(json, "disk_free_bytes", sample.whole("run_free"));
  put(json, "receive_bytes_per_s", sample.number("received_per_s"));
  put(json, "send_bytes_per_s", sample.number("sent_per_s"));
  put(json, "read_bytes_per_s", sample.number("read_per_s"));
  put(json, "write_bytes_per_s", sample.number("written_per_s"));
  put(json, "cpu_pressure_ratio", sample.number("cpu_pressure"));
  put(json, "memory_pressure_ratio", sample.number("memory_pressure"));
  put(json, "io_pressure_ratio", sample.number("io_pressure"));
  put_unknown(json, {"slots", "leases"});
  json.key("gpus");
  if (gpus == nullptr || !live) {
    json.null().end();
    return;
  }
  json.array();
  for (std::size_t i = 0; i < gpus->rows.size(); ++i)
    if (gpus->rows[i].starts_with(node.name + "/")) put_gpu(json, *gpus, i);
  json.end().end();
}

}  // namespace

void put_json(JsonWriter& json, const boost::json::value& value) {
  if (const auto* text = value.if_string()) {
    json.value(std::string_view(text->data(), text->size()));
  } else if (const auto* object = value.if_object()) {
    json.object();
    for (const auto& member : *object) {
      json.key(member.key());
      put_json(json, member.value());
    }
    json.end();
  } else if (const auto* array = value.if_array()) {
    json.array();
    for (const boost::json::value& one : *array) put_json(json, one);
    json.end();
  } else {
    json.raw(boost::json::serialize(value));
  }
}

std::string time_of(const SampleTable* table) {
  return table == nullptr ? std::string()
                          : format_utc(WallTime(std::chrono::milliseconds(table->end_ms)));
}

void put_event(JsonWriter& json, const JournalRecord& record) {
  json.object().member("seq", record.seq).member("t", record.time);
  json.member("generation", record.generation.value);
  for (const auto& member : record.event) {
    json.key(member.key());
    put_json(json, member.value());
  }
  if (!record.event.contains("event")) json.member("event", "unknown");
  json.end();
}

void put_attempts(JsonWriter& json, const RunView& view, const boost::json::object& run_json,
                  const TimeAccounts& newest, WallTime now) {
  json.array();
  for (const AttemptView& attempt : view.attempts)
    put_attempt(json, attempt, attempt_in(run_json, attempt.attempt),
                &attempt == view.newest() ? newest : attempt.time, now);
  json.end();
}

void put_stragglers(JsonWriter& json, const RunView& view) {
  std::vector<std::pair<std::int64_t, StragglerView>> slow(view.stragglers.begin(),
                                                           view.stragglers.end());
  std::stable_sort(slow.begin(), slow.end(),
                   [](const auto& a, const auto& b) { return a.second.behind > b.second.behind; });
  if (slow.size() > kStragglersMax) slow.resize(kStragglersMax);
  json.array();
  for (const auto& [rank, straggler] : slow) {
    const NodePlace* node = view.newest()->node_of(rank);
    json.object().member("rank", rank).text_or_null("node", node != nullptr ? node->name : "");
    json.member("behind_ratio", straggler.behind).text_or_null("phase", straggler.phase);
    json.text_or_null("since", straggler.since).end();
  }
  json.end();
}

void put_ingest(JsonWriter& json, const RunView& view, bool live) {
  json.array();
  for (const auto& [dataset, counts] : view.ingest.counts(live))
    json.object()
        .member("dataset", dataset)
        .member("workers", counts.wanted)
        .member("serving", counts.serving)
        .member("deaths", counts.deaths)
        .end();
  json.end();
}

std::int64_t RankFacts::attempts_with(std::int64_t rank) const {
  return std::count_if(view->attempts.begin(), view->attempts.end(),
                       [&](const AttemptView& one) { return rank < one.workers; });
}

std::optional<double> median_step(const SampleTable* ranks) {
  std::vector<double> steps;
  for (std::size_t i = 0; ranks != nullptr && i < ranks->rows.size(); ++i)
    if (const double step = ranks->number("step_s", i); std::isfinite(step)) steps.push_back(step);
  if (steps.empty()) return std::nullopt;
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

std::optional<std::int64_t> pid_of(const RankFacts& facts, std::int64_t rank) {
  return SampleRow(facts.live ? facts.ranks : nullptr, std::to_string(rank)).whole("pid");
}

void put_rank(JsonWriter& json, const RankFacts& facts, std::int64_t rank, const RankFiles& files) {
  const SampleRow sample(facts.live ? facts.ranks : nullptr, std::to_string(rank));
  const NodePlace* node = facts.attempt->node_of(rank);
  json.object().member("rank", rank).text_or_null("node", node != nullptr ? node->name : "");
  put(json, "local_rank",
      node ? std::optional(facts.attempt->local_rank(*node, rank)) : std::nullopt);
  json.text_or_null("role", facts.attempt->role_of(rank));
  put(json, "pid", sample.whole("pid"));
  json.member("state", state_of_rank(facts, rank, sample, files));
  json.text_or_null("process_state", sample.text("state"));
  json.text_or_null("waits_in", sample.text("waits_in"));
  json.text_or_null("cpus", sample.text("cpus"));
  json.text_or_null("phase", sample.text("phase")).text_or_null("phase_text", sample.text("doing"));
  json.key("phase_since").null();
  put(json, "quiet_s", sample.number("quiet_s"));
  put(json, "step", sample.whole("steps"));
  put(json, "step_s", sample.number("step_s"));
  put(json, "steps_per_s", sample.number("steps_per_s"));
  const auto slow = facts.view->stragglers.find(rank);
  const bool is_slow = facts.live && slow != facts.view->stragglers.end();
  put(json, "straggler", is_slow || sample ? std::optional(is_slow) : std::nullopt);
  put(json, "behind_ratio", is_slow ? std::optional(slow->second.behind) : std::nullopt);
  put(json, "data_wait_ratio", sample.number("data_wait"));
  put(json, "collective_wait_ratio", sample.number("collective_wait"));
  put(json, "checkpoint_wait_ratio", sample.number("checkpoint_wait"));
  put(json, "report_wait_ratio", sample.number("report_wait"));
  put(json, "cpu_cores", sample.number("cpu"));
  put(json, "cpu_wait_ratio", sample.number("cpu_wait"));
  put(json, "rss_bytes", sample.whole("rss"));
  put(json, "rss_limit_bytes", sample.whole("memory_limit"));
  put(json, "threads", sample.whole("threads"));
  put(json, "read_bytes_per_s", sample.number("read_per_s"));
  put(json, "write_bytes_per_s", sample.number("written_per_s"));
  put_gpus_of(json, facts.live ? facts.gpus : nullptr, rank);
  const auto found = facts.reports->find(static_cast<std::int32_t>(rank));
  const bool reported = found != facts.reports->end() &&
                        std::int64_t{found->second.attempt} == facts.attempt->attempt;
  put(json, "reports", reported ? std::optional(found->second.reports) : std::nullopt);
  const bool newest = reported && files.newest;
  json.text_or_null(
      "last_report",
      newest ? format_utc(WallTime(std::chrono::microseconds(files.newest->wall_us))) : "");
  const std::int64_t epoch = newest ? epoch_of(files.newest->metrics) : -1;
  put(json, "epoch", epoch >= 0 ? std::optional(epoch) : std::nullopt);
  json.member("attempts", facts.attempts_with(rank));
  put_error_of(json, files.error);
  put(json, "stdout_bytes", files.stdout_bytes);
  put(json, "stderr_bytes", files.stderr_bytes);
  json.end();
}

void put_checkpoints(JsonWriter& json, const CheckpointTable& table,
                     const std::vector<std::optional<std::int64_t>>& attempts) {
  json.array();
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    const CheckpointRow& row = table.rows[i];
    const bool usable = row.error.empty();
    const auto if_usable = [&](const auto& value) {
      return usable ? std::optional(value) : std::nullopt;
    };
    json.object().member("number", row.number).member("name", row.name).member("path", row.path);
    json.text_or_null("error", row.error).text_or_null("created", row.created);
    put(json, "bytes", if_usable(row.bytes));
    put(json, "files", if_usable(row.files));
    put(json, "world_size", if_usable(row.world_size));
    put(json, "attempt", attempts[i]);
    put(json, "epoch", row.epoch);
    put(json, "score", row.score);
    json.member("metrics", row.metrics).text_or_null("validation", row.validation);
    json.text_or_null("validation_error", row.validation_error).key("nodes").array();
    for (const std::string& node : row.nodes) json.value(node);
    json.end().member("latest", row.latest).member("best", row.best).end();
  }
  json.end();
}

void put_nodes(JsonWriter& json, const RunView& view, bool live, const SampleTable* nodes,
               const SampleTable* gpus) {
  json.array();
  for (const NodeRow& node : nodes_of(view)) put_node(json, view, node, live, nodes, gpus);
  json.end();
}

}  // namespace train
