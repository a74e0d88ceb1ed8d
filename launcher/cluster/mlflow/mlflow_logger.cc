#include "launcher/cluster/mlflow/mlflow_logger.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <utility>

#include "launcher/spec/secrets.h"
#include "lib/base/host.h"
#include "lib/base/secrets.h"
#include "lib/base/terminal_text.h"
#include "lib/base/thread.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

namespace json = boost::json;

TimePoint now() { return std::chrono::steady_clock::now(); }

std::int64_t wall_ms() {
  return std::chrono::duration_cast<milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Return a text within an answer, or "" if it is not there.
std::string text_at(const json::value& answer, std::string_view pointer) {
  boost::system::error_code ec;
  const json::value* found = answer.find_pointer(pointer, ec);
  return found != nullptr && found->is_string() ? std::string(found->as_string()) : "";
}

/// Return the pairs at `pointer`.
MlflowTexts texts_at(const json::value& answer, std::string_view pointer) {
  boost::system::error_code ec;
  const json::value* found = answer.find_pointer(pointer, ec);
  MlflowTexts texts;
  if (found == nullptr || !found->is_array()) return texts;
  for (const json::value& pair : found->as_array())
    texts[text_at(pair, "/key")] = text_at(pair, "/value");
  return texts;
}

/// Escape a query's value: MLflow's names of experiments may have any character.
std::string query_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    escaped += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return escaped;
}

class Sink final : public ReportSink {
 public:
  explicit Sink(MlflowLogger& logger) : logger_(logger) {}
  Result<Unit> on_reports(std::span<const ReportRecord> reports) override {
    logger_.add(reports);
    return Unit{};
  }
  Result<Unit> flush() override { return Unit{}; }
  Result<Unit> sync() override { return Unit{}; }

 private:
  MlflowLogger& logger_;
};

}  // namespace

MlflowRun mlflow_run(const JobSpec& spec, const RunIdentity& run) {
  std::string command;
  for (const std::string& word : spec::shown_spec(spec).command)
    command += (command.empty() ? "" : " ") + shell_word(word);
  return {.run_id = run.own_id(),
          .name = run.name,
          .params = mlflow_params(spec),
          .tags = {{"mlflow.source.type", "JOB"},
                   {"mlflow.source.name", utf8_text(command, kMlflowTagBytesMax)},
                   {"trainrun.path", run.location},
                   {"trainrun.host", host_name()}}};
}

std::optional<MlflowEnd> mlflow_end(const RunSummary& summary, const std::string& shown_spec) {
  if (summary.outcome == Outcome::Replaced) return std::nullopt;
  return MlflowEnd{.status = mlflow_status(summary.outcome),
                   .note = "```\n" + redacted(summary_text(summary, {})) + "```\n",
                   .files = {{"spec.yaml", shown_spec}, {"run.json", redacted(run_json(summary))}}};
}

MlflowLogger::MlflowLogger(MlflowOptions options, MlflowRun run,
                           std::function<void(const std::string&)> say, AskHttp ask)
    : options_(std::move(options)),
      run_(std::move(run)),
      say_(std::move(say)),
      ask_(std::move(ask)),
      started_ms_(wall_ms()) {}

MlflowLogger::~MlflowLogger() {
  end_by(TimePoint{}, std::nullopt);
  if (thread_.joinable()) thread_.join();
}

std::unique_ptr<ReportSink> MlflowLogger::sink() { return std::make_unique<Sink>(*this); }

void MlflowLogger::begin() {
  counts_drops_ = true;  // the server has had what was dropped until now
  thread_ = start_thread("trainrun-mlflow", [this] { run(); });
}

void MlflowLogger::earlier(const ReportRecord& report) {
  const std::lock_guard lock(mutex_);
  if (report.rank != 0) return;
  if (step_ == 0) started_ms_ = report.wall_us / 1000;
  add_points(report);
}

void MlflowLogger::add(std::span<const ReportRecord> reports) {
  const std::lock_guard lock(mutex_);
  for (const ReportRecord& report : reports)
    if (report.rank == 0) add_points(report);
  changed_.notify_all();
}

void MlflowLogger::add_points(const ReportRecord& report) {
  ++step_;
  for (MlflowPoint& point : mlflow_points(report, step_)) {
    if (queue_.size() == kMlflowPointsMax) {
      queue_.pop_front();
      dropped_ += counts_drops_ ? 1 : 0;
    }
    queue_.push_back(std::move(point));
  }
}

void MlflowLogger::end_by(TimePoint deadline, std::optional<MlflowEnd> end) {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  deadline_ = std::min(deadline_, deadline);
  if (end) end_ = std::move(end);
  changed_.notify_all();
}

void MlflowLogger::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline_, [this] { return done_; });
  const std::size_t left = dropped_ + queue_.size();
  const bool done = done_;
  lock.unlock();
  if (left > 0)
    say_(
        fmt::format("MLflow: {} values were not logged: the server was away; they are in "
                    "metrics.jsonl",
                    left));
  else if (!done)
    say_("MLflow: the server was away at the end of the run, and does not know how it ended");
}

bool MlflowLogger::over() const {
  const std::lock_guard lock(mutex_);
  return now() >= deadline_;
}

/// Wait, or until the run ends. Return false if time is up.
bool MlflowLogger::pause(Duration time) {
  std::unique_lock lock(mutex_);
  const TimePoint until = now() + time;
  const bool was_ending = ending_;
  changed_.wait_until(lock, until,
                      [&] { return ending_ != was_ending || now() >= std::min(until, deadline_); });
  return now() < deadline_;
}

void MlflowLogger::failed(const std::string& text) {
  if (!std::exchange(failure_told_, true)) say_("MLflow: " + text);
}

Result<Unit> MlflowLogger::insist(const std::function<Result<Unit>()>& once) {
  for (Duration wait = kMlflowFirstPause;; wait = std::min(wait * 2, kMlflowPauseMax)) {
    auto done = once();
    if (done) failure_told_ = false;
    if (done || done.error().code != Errc::Unavailable) return done;
    failed(
        fmt::format("the server at {} does not answer: {}; training goes on, and up to {} values "
                    "wait for it",
                    options_.uri, done.error().message, kMlflowPointsMax));
    if (!pause(wait)) return done;
  }
}

Result<json::object> MlflowLogger::ask_once(WebRequest request) {
  request.headers.insert(request.headers.end(), options_.headers.begin(), options_.headers.end());
  request.user = options_.user;
  request.ca_file = options_.ca_file;
  request.verify = options_.verify;
  request.timeout = kMlflowRequestMax;
  request.cancelled = [this] { return over(); };
  return mlflow_answer(ask_(request));
}

Result<json::object> MlflowLogger::get(const std::string& what) {
  return ask_once({.url = options_.uri + "/api/2.0/mlflow/" + what});
}

Result<json::object> MlflowLogger::post(const std::string& what, std::string body) {
  return ask_once({.method = "POST",
                   .url = options_.uri + "/api/2.0/mlflow/" + what,
                   .headers = {"Content-Type: application/json"},
                   .body = body});
}

void MlflowLogger::run() {
  bool ready = set_up();
  for (bool last = false; !last;) {
    const Batch batch = next_batch();
    last = batch.last;
    if (ready)
      send(batch.points);
    else
      refused_ += batch.points.size();
  }
  std::optional<MlflowEnd> end;
  {
    const std::lock_guard lock(mutex_);
    end = std::move(end_);
  }
  if (ready && end && !over()) send_end(*end);
  if (refused_ > 0) say_(fmt::format("MLflow: the server has refused {} values", refused_));
  const std::lock_guard lock(mutex_);
  done_ = now() < deadline_;
  changed_.notify_all();
}

/// Find or make the run. Return false if the server refuses it, or time is up.
bool MlflowLogger::set_up() {
  if (!ask_) {
    auto loaded = load_http_client();
    if (loaded.has_error()) {
      failed(loaded.error().describe());
      return false;
    }
    ask_ = std::move(*loaded);
  }
  const auto done = insist([this]() -> Result<Unit> {
    if (!options_.run_id.empty()) {
      TRY(const json::object found, get("runs/get?run_id=" + query_text(options_.run_id)));
      return take_run(found.contains("run") ? found.at("run").as_object() : json::object{});
    }
    TRY(const std::string experiment, find_experiment());
    return find_run(experiment);
  });
  if (!done && done.error().code != Errc::Unavailable)
    failed("the server at " + options_.uri + " refuses the run: " + done.error().message);
  return done.has_value();
}

Result<std::string> MlflowLogger::find_experiment() {
  if (!options_.experiment_id.empty()) return options_.experiment_id;
  const std::string query = query_text(options_.experiment_name);
  auto found = get("experiments/get-by-name?experiment_name=" + query);
  if (found) return text_at(*found, "/experiment/experiment_id");
  if (found.error().code != Errc::NotFound) return found.error();
  auto made =
      post("experiments/create", json::serialize(json::object{{"name", options_.experiment_name}}));
  if (made) return text_at(*made, "/experiment_id");
  // Somebody may have made it meanwhile: then it is found the next time.
  const bool exists = made.error().message.starts_with("RESOURCE_ALREADY_EXISTS");
  return Error{exists ? Errc::Unavailable : made.error().code, made.error().message};
}

Result<Unit> MlflowLogger::find_run(const std::string& experiment) {
  TRY(const json::object found,
      post("runs/search", mlflow_find_run(experiment, kMlflowRunTag, run_.run_id)));
  const json::value* runs = found.if_contains("runs");
  if (runs != nullptr && runs->is_array() && !runs->as_array().empty() &&
      runs->as_array()[0].is_object())
    return take_run(runs->as_array()[0].as_object());
  return make_run(experiment);
}

Result<Unit> MlflowLogger::make_run(const std::string& experiment) {
  MlflowTexts tags = run_.tags;
  tags[kMlflowRunTag] = run_.run_id;
  TRY(const json::object made,
      post("runs/create", mlflow_create_run(experiment, run_.name, started_ms_, tags)));
  mlflow_run_ = text_at(made, "/run/info/run_id");
  artifacts_ = text_at(made, "/run/info/artifact_uri");
  return put_texts(run_.params, {});
}

/// Go on in a run that is there.
Result<Unit> MlflowLogger::take_run(const json::object& run) {
  mlflow_run_ = text_at(run, "/info/run_id");
  artifacts_ = text_at(run, "/info/artifact_uri");
  TRY_VOID(post("runs/update", mlflow_update(mlflow_run_, "RUNNING", 0)));
  MlflowTexts params = run_.params, tags = run_.tags;
  keep_params(params, texts_at(run, "/data/params"), tags);
  return put_texts(std::move(params), std::move(tags));
}

Result<Unit> MlflowLogger::put_texts(MlflowTexts params, MlflowTexts tags) {
  do {
    MlflowTexts some;
    while (!params.empty() && some.size() < kMlflowParamsMax)
      some.insert(params.extract(params.begin()));
    TRY_VOID(post("runs/log-batch", mlflow_batch(mlflow_run_, {}, some, tags)));
    tags.clear();
  } while (!params.empty());
  return Unit{};
}

/// Wait for values, and a moment for more of them.
MlflowLogger::Batch MlflowLogger::next_batch() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return ending_ || !queue_.empty(); });
  changed_.wait_for(lock, kMlflowSendEvery,
                    [this] { return ending_ || queue_.size() >= kMlflowBatchMax; });
  Batch batch;
  const auto count = static_cast<std::ptrdiff_t>(std::min(queue_.size(), kMlflowBatchMax));
  batch.points.assign(queue_.begin(), queue_.begin() + count);
  if (now() < deadline_) queue_.erase(queue_.begin(), queue_.begin() + count);
  batch.last = ending_ && (queue_.empty() || now() >= deadline_);
  return batch;
}

void MlflowLogger::send(const std::vector<MlflowPoint>& points) {
  if (points.empty() || over()) return;
  const auto sent = insist([&]() -> Result<Unit> {
    TRY_VOID(post("runs/log-batch", mlflow_batch(mlflow_run_, points, {}, {})));
    return Unit{};
  });
  if (sent) return;
  if (sent.error().code == Errc::Unavailable) {
    const std::lock_guard lock(mutex_);
    dropped_ += points.size();
  } else {
    refused_ += points.size();
    failed("the server refuses values: " + sent.error().message);
  }
}

void MlflowLogger::send_end(const MlflowEnd& end) {
  const auto ended = insist([&]() -> Result<Unit> {
    for (const auto& [name, text] : end.files) {
      const std::string path = mlflow_artifact_path(artifacts_, name);
      if (path.empty()) break;
      TRY_VOID(ask_once({.method = "PUT", .url = options_.uri + path, .body = text}));
    }
    TRY_VOID(put_texts({}, {{"mlflow.note.content", utf8_text(end.note, kMlflowTagBytesMax)}}));
    TRY_VOID(post("runs/update", mlflow_update(mlflow_run_, end.status, wall_ms())));
    return Unit{};
  });
  if (!ended && ended.error().code != Errc::Unavailable)
    failed("the server refuses the run's end: " + ended.error().message);
}

}  // namespace train
