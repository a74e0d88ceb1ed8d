#include "launcher/dashboard/run_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "launcher/cluster/checkpoints/checkpoint_rows.h"
#include "launcher/cluster/checkpoints/run_checkpoints.h"
#include "launcher/dashboard/json_members.h"
#include "launcher/dashboard/run_json.h"
#include "launcher/dashboard/run_spec.h"
#include "launcher/dashboard/worker_environment.h"
#include "lib/base/secrets.h"
#include "lib/base/time.h"
#include "lib/base/utf8.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::size_t kFilesOfRanksMax = 512;  // more ranks: their own files are not looked at
constexpr std::size_t kErrorBytesMax = 1u << 20;
constexpr std::int64_t kEventsMax = 10'000;

HttpResponse json_response(JsonWriter&& json) { return {.body = std::move(json).take()}; }

std::chrono::system_clock::time_point wall_now() { return std::chrono::system_clock::now(); }

const SampleTable* table_of(const std::vector<SampleTable>& tables, SampleKind kind) {
  const auto found = std::find_if(tables.begin(), tables.end(),
                                  [&](const SampleTable& table) { return table.kind == kind; });
  return found == tables.end() ? nullptr : &*found;
}

Result<const AttemptView*> attempt_of(const RunRequest& request) {
  const RunView& view = request.run.view();
  const std::string& text = request.parts[0];
  if (text == "latest" && view.newest() != nullptr) return view.newest();
  std::int64_t number = -1;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = failed == std::errc() && end == text.data() + text.size();
  const AttemptView* found = whole ? view.find(number) : nullptr;
  if (found != nullptr) return found;
  return Error{Errc::NotFound, fmt::format("the run has no attempt '{}'", utf8_text(text, 32))};
}

Result<std::int64_t> rank_of(const RunRequest& request, const AttemptView& attempt) {
  std::int64_t rank = -1;
  const std::string& text = request.parts[1];
  (void)std::from_chars(text.data(), text.data() + text.size(), rank);
  if (rank >= 0 && rank < attempt.workers) return rank;
  return Error{Errc::NotFound,
               fmt::format("attempt {} has no rank '{}'", attempt.attempt, utf8_text(text, 32))};
}

/// Put the outcome that exit.json tells.
void put_exit(JsonWriter& json, const boost::json::object& exit) {
  json.key("exit");
  if (exit.empty()) {
    json.null();
    return;
  }
  json.object();
  put(json, "code", whole_member(exit, "code"));
  json.text_or_null("outcome", text_member(exit, "outcome"));
  json.text_or_null("cause", text_member(exit, "cause"));
  json.text_or_null("how_known", text_member(exit, "how_known"));
  put(json, "root_rank", whole_member(exit, "root_rank"));
  json.text_or_null("node", text_member(exit, "node"));
  put(json, "exit_code", whole_member(exit, "exit_code"));
  json.text_or_null("signal", text_member(exit, "signal")).end();
}

std::string checkpoint_in(const boost::json::object& run_json, std::string_view name) {
  const boost::json::object* checkpoint = object_member(run_json, name);
  return checkpoint != nullptr ? text_member(*checkpoint, "name") : std::string();
}

void put_texts(JsonWriter& json, std::string_view name, const boost::json::object& object) {
  json.key(name).array();
  const auto* texts = object.if_contains(name);
  if (texts != nullptr && texts->is_array())
    for (const boost::json::value& text : texts->get_array())
      if (text.is_string()) json.value(std::string_view(text.get_string()));
  json.end();
}

void put_results(JsonWriter& json, const boost::json::object& run_json) {
  json.key("results").array();
  const auto* results = run_json.if_contains("results");
  if (results != nullptr && results->is_array())
    for (const boost::json::value& result : results->get_array()) put_json(json, result);
  json.end();
}

void put_launcher(JsonWriter& json, const RunView& view) {
  json.key("launcher");
  if (view.host.empty()) {
    json.null();
    return;
  }
  json.object().member("host", view.host).member("pid", view.pid);
  json.text_or_null("started", view.launcher_began).text_or_null("build", view.build).end();
}

/// Return the rank's own files; only those of failed attempts have errors.
RankFiles files_of(RunData& run, const AttemptView& attempt, std::int64_t rank, bool look) {
  RankFiles found;
  found.newest = run.reports().newest(static_cast<std::int32_t>(rank));
  if (!look) return found;
  const std::string folder = fmt::format("attempts/{:03}/ranks/{:04}/", attempt.attempt, rank);
  if (const auto stamp = run.files().stamp(folder + "stdout.log"))
    found.stdout_bytes = stamp->bytes;
  if (const auto stamp = run.files().stamp(folder + "stderr.log"))
    found.stderr_bytes = stamp->bytes;
  if (!attempt.failed) return found;
  found.error = read_object(run.files(), folder + "error.json", kErrorBytesMax);
  return found;
}

RankFacts rank_facts(RunData& run, const AttemptView& attempt) {
  RankFacts facts;
  facts.attempt = &attempt;
  facts.view = &run.view();
  facts.live = run.live() && &attempt == run.view().newest() && attempt.ended.empty();
  facts.run_state = run.view().state;
  facts.reports = &run.reports().ranks();
  const auto& samples = run.samples();
  facts.ranks = table_of(samples, SampleKind::Ranks);
  facts.gpus = table_of(samples, SampleKind::Gpus);
  if (facts.ranks != nullptr && facts.ranks->attempt != attempt.attempt) facts.ranks = nullptr;
  return facts;
}

}  // namespace

Result<HttpResponse> answer_run(const RunRequest& request) {
  RunData& run = request.run;
  const RunView& view = run.view();
  const ShownSpec spec = read_shown_spec(run.files());
  JsonWriter json;
  json.object();
  put_row(json, run.row());
  json.text_or_null("run_id", view.run_id).member("generation", view.generation);
  put_launcher(json, view);
  json.key("command");
  if (spec.spec) {
    json.array();
    for (const std::string& word : spec.spec->command) json.value(redacted(word));
    json.end();
  } else {
    json.null();
  }
  json.text_or_null("working_dir", spec.spec ? spec.spec->working_dir : "");
  put_exit(json, run.exit());
  json.text_or_null("best_checkpoint", checkpoint_in(run.run_json(), "best_checkpoint"));
  json.text_or_null("latest_checkpoint", view.checkpoint);
  put_texts(json, "warnings", run.run_json());
  put_results(json, run.run_json());
  json.key("hangs").array();
  for (const JournalRecord& record : view.hangs) put_event(json, record);
  json.end().key("stragglers");
  put_stragglers(json, run.live() ? view : RunView{});
  json.key("ingest");
  put_ingest(json, view, run.live());
  json.member("can_stop", request.actions && run.is_ours()).end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_events(const RunRequest& request) {
  const std::uint64_t newest = request.run.view().last_seq;
  TRY(const std::int64_t last, request.query.whole("last", 0, 1, kEventsMax));
  TRY(const std::int64_t limit, request.query.whole("limit", 1000, 1, kEventsMax));
  TRY(const std::int64_t after,
      request.query.whole("after", 0, 0, std::numeric_limits<std::int64_t>::max()));
  const auto newest_few = static_cast<std::uint64_t>(last);
  const std::uint64_t from =
      last == 0 ? static_cast<std::uint64_t>(after) : newest - std::min(newest, newest_few);
  const auto records =
      request.run.journal().after(from, static_cast<std::size_t>(last == 0 ? limit : last));
  JsonWriter json;
  json.object().key("events").array();
  for (const JournalRecord& record : records) put_event(json, record);
  json.end().member("last_seq", newest);
  json.member("more", !records.empty() && records.back().seq < newest);
  json.text_or_null("damaged", request.run.journal().damage()).end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_spec(const RunRequest& request) {
  const ShownSpec spec = read_shown_spec(request.run.files());
  JsonWriter json;
  json.object().text_or_null("given", spec.given).text_or_null("resolved", spec.resolved);
  json.key("fields").object();
  for (const auto& [path, value] : flat_fields(spec.resolved)) json.member(path, value);
  json.end().end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_attempts(const RunRequest& request) {
  JsonWriter json;
  json.object().key("attempts");
  const RunView& view = request.run.view();
  const TimeAccounts newest =
      view.newest() != nullptr ? request.run.time_of(*view.newest()) : TimeAccounts{};
  put_attempts(json, view, request.run.run_json(), newest, wall_now());
  json.end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_ranks(const RunRequest& request) {
  TRY(const AttemptView* attempt, attempt_of(request));
  TRY(const std::int64_t skip, request.query.whole("after", 0, 0, 1'000'000));
  TRY(const std::int64_t limit, request.query.whole("limit", 10'000, 1, 10'000));
  const RankFacts facts = rank_facts(request.run, *attempt);
  const std::int64_t end = std::min(attempt->workers, skip + limit);
  const bool look = end - skip <= static_cast<std::int64_t>(kFilesOfRanksMax);
  JsonWriter json;
  json.object().member("attempt", attempt->attempt).member("world_size", attempt->world_size);
  json.text_or_null("as_of", time_of(facts.live ? facts.ranks : nullptr));
  put(json, "median_step_s", facts.live ? median_step(facts.ranks) : std::nullopt);
  json.key("ranks").array();
  for (std::int64_t rank = skip; rank < end; ++rank)
    put_rank(json, facts, rank, files_of(request.run, *attempt, rank, look));
  json.end().end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_rank(const RunRequest& request) {
  TRY(const AttemptView* attempt, attempt_of(request));
  TRY(const std::int64_t rank, rank_of(request, *attempt));
  JsonWriter json;
  put_rank(json, rank_facts(request.run, *attempt), rank,
           files_of(request.run, *attempt, rank, true));
  return json_response(std::move(json));
}

Result<HttpResponse> answer_environment(const RunRequest& request) {
  TRY(const AttemptView* attempt, attempt_of(request));
  TRY(const std::int64_t rank, rank_of(request, *attempt));
  const ShownSpec spec = read_shown_spec(request.run.files());
  const RankFacts facts = rank_facts(request.run, *attempt);
  std::optional<Environment> environment;
  if (facts.live && request.run.is_ours())
    if (const auto pid = pid_of(facts, rank))
      environment = worker_environment(*pid, request.run.view().run_id, rank);
  JsonWriter json;
  json.object().member("rank", rank).key("variables");
  if (environment) {
    json.object();
    for (const auto& [name, value] : shown_worker_environment(*environment, spec.spec))
      json.member(name, value);
    json.end().key("why_not").null();
  } else {
    json.null().member("why_not", !facts.live
                                      ? "the attempt is over"
                                      : "the worker is not on the dashboard's machine, belongs to "
                                        "another user, or has not been seen yet");
  }
  json.end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_checkpoints(const RunRequest& request) {
  const ShownSpec spec = read_shown_spec(request.run.files());
  const CheckpointConfig config =
      spec.spec ? spec.spec->run_config.checkpoint_config : CheckpointConfig{};
  PosixFileSystem files;
  TRY(const RunCheckpoints checkpoints, open_checkpoints(request.run.location(), files));
  TRY(const auto listed, checkpoints.store->list());
  std::vector<std::optional<std::int64_t>> attempts;
  for (const ListedCheckpoint& one : listed)
    attempts.push_back(one.manifest ? std::optional(std::int64_t{one.manifest->attempt.value})
                                    : std::nullopt);
  const CheckpointTable table = checkpoint_table(listed, config);
  JsonWriter json;
  json.object().text_or_null("score_attribute", table.score_attribute);
  json.member("committed", request.run.view().checkpoints).key("checkpoints");
  put_checkpoints(json, table, attempts);
  json.end();
  return json_response(std::move(json));
}

Result<HttpResponse> answer_nodes(const RunRequest& request) {
  const auto& samples = request.run.samples();
  const SampleTable* nodes = table_of(samples, SampleKind::Nodes);
  JsonWriter json;
  json.object().text_or_null("as_of", time_of(nodes)).key("nodes");
  put_nodes(json, request.run.view(), request.run.live(), nodes,
            table_of(samples, SampleKind::Gpus));
  json.end();
  return json_response(std::move(json));
}

}  // namespace train
