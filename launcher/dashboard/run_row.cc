#include "launcher/dashboard/run_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <compare>

#include "launcher/dashboard/json_members.h"
#include "launcher/report/goodput_text.h"
#include "lib/base/time.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::array<std::string_view, 12> kRowStates{
    "attaching",    "scheduling", "preparing", "starting", "running",     "pausing",
    "tearing_down", "finished",   "errored",   "stopped",  "interrupted", "unknown"};

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

bool matches(const RunRow& row, const RunQuery& query, const std::string& text) {
  const bool any_state = query.states.empty() && !query.live;
  const bool state =
      std::find(query.states.begin(), query.states.end(), row.state) != query.states.end();
  if (!any_state && !state && !(query.live && row.live)) return false;
  if (text.empty()) return true;
  for (const std::string* field : {&row.name, &row.path, &row.owner, &row.cause})
    if (lower(*field).find(text) != std::string::npos) return true;
  return false;
}

/// Compare by one column; what is not known comes first.
std::partial_ordering compare(const RunRow& a, const RunRow& b, const std::string& by) {
  if (by == "name") return a.name <=> b.name;
  if (by == "state") return a.state <=> b.state;
  if (by == "duration_s") return a.duration_s.value_or(-1) <=> b.duration_s.value_or(-1);
  if (by == "workers") return a.workers.value_or(-1) <=> b.workers.value_or(-1);
  if (by == "attempts") return a.attempts <=> b.attempts;
  if (by == "goodput_ratio") return a.goodput_ratio.value_or(-1) <=> b.goodput_ratio.value_or(-1);
  return a.began <=> b.began;
}

double seconds_between(const std::string& from, std::chrono::system_clock::time_point to) {
  return std::max(0.0, std::chrono::duration<double>(to - parse_utc(from)).count());
}

}  // namespace

void put_view(RunRow& row, const RunView& view, bool has_ended, const std::string& exit_cause,
              std::chrono::system_clock::time_point now) {
  row.state = row.live || is_end_state(view.state) || has_ended ? view.state : "interrupted";
  if (view.last_seq == 0) row.state = "unknown";
  row.state_since = view.state_since;
  row.began = view.began;
  row.ended = row.live ? std::string() : view.ended;
  if (!row.began.empty() && (row.live || !row.ended.empty()))
    row.duration_s = seconds_between(row.began, row.ended.empty() ? now : parse_utc(row.ended));
  row.attempts = view.attempts_begun;
  row.restarts = view.restarts;
  if (const AttemptView* newest = view.newest()) {
    row.workers = newest->workers;
    row.nodes = static_cast<std::int64_t>(newest->nodes.size());
  }
  row.checkpoint = view.checkpoint;
  row.host = view.host;
  row.cause = !row.live && !exit_cause.empty() ? exit_cause : view.reason;
}

void put_report(RunRow& row, const ReportRecord& report) {
  row.reports = static_cast<std::int64_t>(report.report_seq);
  row.last_report =
      format_utc(std::chrono::system_clock::time_point(std::chrono::microseconds(report.wall_us)));
  const std::int64_t epoch = epoch_of(report.metrics);
  if (epoch >= 0) row.epoch = epoch;
  row.metrics = report.metrics;
  if (row.metrics.size() > kRowMetricsMax) row.metrics.resize(kRowMetricsMax);
}

void put_time(RunRow& row, const TimeAccounts& time) {
  row.time = time;
  if (says_anything(time)) row.goodput_ratio = time.share(TimeUse::Step);
}

void put_time(JsonWriter& json, const TimeAccounts& time) {
  time.total() > Duration{} ? put_seconds(json, time) : void(json.null());
}

void put_row(JsonWriter& json, const RunRow& row) {
  json.member("id", row.id).member("name", row.name).member("path", row.path);
  json.text_or_null("owner", row.owner).member("state", row.state).member("live", row.live);
  json.text_or_null("state_since", row.state_since).text_or_null("began", row.began);
  json.text_or_null("ended", row.ended);
  put(json, "duration_s", row.duration_s);
  put(json, "workers", row.workers);
  put(json, "nodes", row.nodes);
  json.member("attempts", row.attempts).member("restarts", row.restarts);
  put(json, "epoch", row.epoch);
  put(json, "reports", row.reports);
  json.text_or_null("last_report", row.last_report).member("metrics", row.metrics);
  put(json, "goodput_ratio", row.goodput_ratio);
  json.key("goodput");
  put_time(json, row.time);
  json.text_or_null("cause", row.cause).text_or_null("checkpoint", row.checkpoint);
  json.text_or_null("host", row.host).text_or_null("error", row.error).key("sweep");
  if (!row.trial) return void(json.null());
  json.object().member("id", row.trial->sweep).member("name", row.trial->name);
  json.member("trial", row.trial->trial).end();
}

Result<bool> wants_trials(const HttpQuery& query) {
  const std::string* text = query.find("trials");
  if (text == nullptr || *text == "true") return true;
  if (*text == "false") return false;
  return Error{Errc::InvalidArgument,
               fmt::format("'trials' is '{}', but true or false is needed", utf8_text(*text, 32))};
}

Result<Unit> parse_states(std::string_view text, RunQuery& query) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    const std::string_view state = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (state == "live") {
      query.live = true;
    } else if (std::find(kRowStates.begin(), kRowStates.end(), state) != kRowStates.end()) {
      query.states.emplace_back(state);
    } else {
      return Error{Errc::InvalidArgument,
                   fmt::format("'{}' is no state of a run", utf8_text(state, 64)),
                   fmt::format("states: live, {}", fmt::join(kRowStates, ", "))};
    }
  }
  return Unit{};
}

std::vector<const RunRow*> select_rows(const std::vector<RunRow>& rows, const RunQuery& query,
                                       std::size_t& matching) {
  const std::string text = lower(query.text);
  std::vector<const RunRow*> found;
  for (const RunRow& row : rows)
    if (matches(row, query, text)) found.push_back(&row);
  std::stable_sort(found.begin(), found.end(), [&](const RunRow* a, const RunRow* b) {
    const auto order = query.descending ? compare(*b, *a, query.sort) : compare(*a, *b, query.sort);
    return order != 0 ? order < 0 : a->id < b->id;
  });
  matching = found.size();
  found.erase(found.begin(),
              found.begin() + static_cast<std::ptrdiff_t>(std::min(query.skip, found.size())));
  if (found.size() > query.limit) found.resize(query.limit);
  return found;
}

}  // namespace train
