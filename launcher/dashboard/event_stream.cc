#include "launcher/dashboard/event_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <charconv>
#include <utility>

#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_json.h"
#include "launcher/dashboard/run_routes.h"
#include "launcher/dashboard/sweeps/sweep_routes.h"
#include "lib/base/utf8.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr std::array<std::string_view, 10> kTopics{"runs",  "sweeps", "run",   "events", "metrics",
                                                   "ranks", "logs",   "tasks", "sweep",  "trials"};
constexpr std::size_t kEventsMax = 1000;             // in a frame
constexpr std::size_t kTrialsBytesMax = 512u << 10;  // in a frame

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string row_text(const RunRow& row) {
  JsonWriter json;
  json.object();
  put_row(json, row);
  json.end();
  return std::move(json).take();
}

std::string row_text(const SweepData& sweep, bool with_duration) {
  JsonWriter json;
  json.object();
  put_sweep_row(json, sweep, with_duration);
  json.end();
  return std::move(json).take();
}

/// Return the row's text without how long it lasts, which changes all the time.
std::string row_without_time(RunRow row) {
  if (row.live) row.duration_s.reset();
  return row_text(row);
}

}  // namespace

std::string event_frame(std::string_view event, std::string_view id, std::string_view data) {
  return fmt::format("event: {}\nid: {}\ndata: {}\n\n", event, id, data);
}

Result<std::unique_ptr<EventStream>> EventStream::open(asio::thread_pool& readers,
                                                       RunCatalog& catalog, RunTasks& tasks,
                                                       const HttpRequest& request) {
  std::unique_ptr<EventStream> stream(new EventStream(readers, catalog, tasks, request));
  if (const std::string* run = stream->query_.find("run")) {
    TRY(stream->run_, catalog.find(*run));
  } else if (const std::string* sweep = stream->query_.find("sweep")) {
    TRY(stream->sweep_, catalog.find_sweep(*sweep));
  }
  TRY(stream->trials_, wants_trials(stream->query_));
  const std::string usual = stream->run_ != nullptr     ? "run,events,metrics,ranks,tasks"
                            : stream->sweep_ != nullptr ? "sweep,trials"
                                                        : "runs";
  const std::string* topics = stream->query_.find("topics");
  stream->topics_ = split(topics != nullptr ? *topics : usual);
  for (const std::string& topic : stream->topics_)
    if (std::find(kTopics.begin(), kTopics.end(), topic) == kTopics.end())
      return Error{Errc::InvalidArgument,
                   fmt::format("'{}' is no topic of the stream", utf8_text(topic, 32)),
                   fmt::format("topics: {}", fmt::join(kTopics, ", "))};
  stream->resume(request.last_event_id);
  return stream;
}

bool EventStream::wants(std::string_view topic) const {
  return std::find(topics_.begin(), topics_.end(), topic) != topics_.end();
}

/// Take up "SEQ;LOGS" of the frame that the client has got last.
void EventStream::resume(const std::string& last_event_id) {
  const std::size_t semicolon = last_event_id.find(';');
  if (run_ == nullptr || semicolon == last_event_id.npos) return;
  std::uint64_t seq = 0;
  const char* end = last_event_id.data() + semicolon;
  const auto [at, failed] = std::from_chars(last_event_id.data(), end, seq);
  if (failed != std::errc() || at != end) return;
  resumed_ = true;
  seq_ = seq;
  log_after_ = last_event_id.substr(semicolon + 1);
}

std::string EventStream::id() const { return fmt::format("{};{}", seq_, log_after_); }

void EventStream::add(std::string& frames, std::string_view event, std::string_view data) const {
  frames += event_frame(event, id(), data);
}

Task<std::string> EventStream::next() {
  for (;;) {
    if (!first_)
      CO_TRY_VOID(
          co_await pause_for(run_ != nullptr || sweep_ != nullptr ? kFrameEvery : kRunsEvery));
    CO_TRY(std::string frames, co_await run_on<std::string>(
                                   readers_, [this]() -> Result<std::string> { return look(); }));
    const TimePoint now = std::chrono::steady_clock::now();
    if (first_ || (frames.empty() && now - alive_ > kAliveEvery)) frames = ": \n\n" + frames;
    first_ = false;
    if (frames.size() > kStreamFrameBytesMax) co_return std::string();
    if (frames.empty()) continue;
    alive_ = now;
    co_return frames;
  }
}

std::string EventStream::look() {
  std::string frames;
  if (run_ != nullptr) {
    run_->with([&](RunData& run) { look_at(run, frames); });
  } else if (sweep_ != nullptr) {
    sweep_->with([&](SweepData& sweep) { look_at_sweep(sweep, frames); });
  } else {
    if (wants("runs")) look_at_runs(frames);
    if (wants("sweeps")) look_at_sweeps(frames);
  }
  return frames;
}

void EventStream::look_at_runs(std::string& frames) {
  std::vector<Row> rows;
  for (const auto& run : catalog_.runs()) {
    if (!trials_ && run->is_trial()) continue;
    const RunRow row = run->with([](RunData& data) { return data.row(); });
    rows.push_back({row.id, row_text(row), row_without_time(row)});
  }
  add_rows(frames, "runs", rows);
}

void EventStream::look_at_sweeps(std::string& frames) {
  std::vector<Row> rows;
  for (const auto& sweep : catalog_.sweeps())
    sweep->with([&](const SweepData& data) {
      rows.push_back({data.id(), row_text(data, true), row_text(data, false)});
    });
  add_rows(frames, "sweeps", rows);
}

/// Add the rows that have changed, or `reset` if one has gone.
void EventStream::add_rows(std::string& frames, const std::string& topic,
                           const std::vector<Row>& rows) {
  std::map<std::string, std::string> sent;
  std::string changed;
  for (const Row& row : rows) {
    const auto before = rows_[topic].find(row.id);
    if (before == rows_[topic].end() || before->second != row.compared)
      changed += (changed.empty() ? "" : ",") + row.text;
    sent[row.id] = row.compared;
  }
  const bool any_gone = std::any_of(rows_[topic].begin(), rows_[topic].end(),
                                    [&](const auto& row) { return !sent.contains(row.first); });
  rows_[topic] = std::move(sent);
  if (first_) return;
  if (any_gone) add(frames, "reset", "{}");
  if (!any_gone && !changed.empty())
    add(frames, topic, fmt::format("{{\"{}\":[{}]}}", topic, changed));
}

void EventStream::look_at_sweep(SweepData& sweep, std::string& frames) {
  if (wants("sweep")) {
    std::string compared = row_text(sweep, false);
    std::string& sent = rows_["sweep"][sweep.id()];
    if (sent != compared) add(frames, "sweep", row_text(sweep, true));
    sent = std::move(compared);
  }
  if (wants("trials")) look_at_trials(sweep, frames);
}

void EventStream::look_at_trials(SweepData& sweep, std::string& frames) {
  const std::uint64_t before = std::exchange(version_, sweep.version());
  const bool anew = std::exchange(readings_, sweep.readings()) != sweep.readings();
  if (first_ || (!anew && before == version_)) return;
  JsonWriter json;
  std::size_t bytes = 0;
  json.object().key("trials").array();
  const auto trials = static_cast<int>(sweep.table().trials.size());
  for (int trial = 0; trial < trials && bytes <= kTrialsBytesMax; ++trial) {
    if (sweep.version(trial) <= before) continue;
    JsonWriter row;
    put_trial_row(row, sweep.row(trial));
    const std::string text = std::move(row).take();
    bytes += text.size();
    json.raw(text);
  }
  json.end().end();
  if (anew || bytes > kTrialsBytesMax)
    add(frames, "reset", "{}");
  else if (bytes > 0)
    add(frames, "trials", std::move(json).take());
}

void EventStream::look_at(RunData& run, std::string& frames) {
  if (wants("logs")) look_at_logs(run, frames);  // first: its cursor is in each frame's id
  if (wants("events")) look_at_events(run, frames);
  if (wants("run")) {
    const RunRow row = run.row();
    std::string text = row_without_time(row);
    std::string& sent = rows_["run"][row.id];
    if (sent != text) add(frames, "run", row_text(row));
    sent = std::move(text);
  }
  if (wants("metrics")) {
    const std::uint64_t reports = run.series(0).series().reports();
    if (reports != reports_ && !first_)
      add(frames, "metrics", fmt::format("{{\"rank\":0,\"reports\":{}}}", reports));
    reports_ = reports;
  }
  if (wants("ranks") && run.view().newest() != nullptr) {
    const auto& samples = run.samples();
    const std::int64_t newest = samples.empty() ? 0 : samples.front().end_ms;
    if (newest != samples_ms_ && !first_) {
      JsonWriter json;
      json.object().member("attempt", run.view().newest()->attempt);
      json.text_or_null("as_of", samples.empty() ? "" : time_of(&samples.front())).end();
      add(frames, "ranks", std::move(json).take());
    }
    samples_ms_ = newest;
  }
  if (wants("tasks")) look_at_tasks(run, frames);
}

void EventStream::look_at_events(RunData& run, std::string& frames) {
  const std::uint64_t newest = run.view().last_seq;
  if (first_ && !resumed_) seq_ = newest;
  if (seq_ > newest || newest - seq_ > kEventsMax) {
    seq_ = newest;
    add(frames, "reset", "{}");
    return;
  }
  const auto records = run.journal().after(seq_, kEventsMax);
  if (records.empty()) return;
  seq_ = records.back().seq;
  JsonWriter json;
  json.object().key("events").array();
  for (const JournalRecord& record : records) put_event(json, record);
  json.end().end();
  add(frames, "events", std::move(json).take());
}

void EventStream::look_at_logs(RunData& run, std::string& frames) {
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const auto& [name, value] : query_.parameters())
    if (name == "attempt" || name == "rank" || name == "stream" || name == "grep")
      parameters.emplace_back(name, value);
  const bool begins = first_ && !resumed_;
  if (!begins) parameters.emplace_back("after", log_after_);
  const HttpQuery query(std::move(parameters));
  const auto answer = answer_logs({run, query, {}, false});
  boost::system::error_code failed;
  const auto json = boost::json::parse(answer ? answer->body : "", failed);
  if (failed || !json.is_object()) return;
  const auto* lines = json.get_object().if_contains("lines");
  log_after_ = text_member(json.get_object(), "after");
  const bool any = lines != nullptr && lines->is_array() && !lines->get_array().empty();
  if (any && !begins) add(frames, "logs", answer->body);
}

void EventStream::look_at_tasks(RunData& run, std::string& frames) {
  for (const RunTask& task : tasks_.all(run)) {
    JsonWriter json;
    put_task(json, task);
    std::string text = std::move(json).take();
    std::string& sent = tasks_sent_[task.id];
    if (sent != text && !first_) add(frames, "tasks", text);
    sent = std::move(text);
  }
}

}  // namespace train
