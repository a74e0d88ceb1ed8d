#include "launcher/dashboard/run_tasks.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "lib/base/file_descriptor.h"
#include "lib/storage/manifest.h"

namespace train {
namespace {

std::string now_text() { return format_utc(std::chrono::system_clock::now()); }

void end(RunTask& task, const std::string& error) {
  task.state = error.empty() ? "done" : "failed";
  task.error = error;
  task.ended = now_text();
}

/// Return the ids of the files that an answer is about: of a profile, all that it has.
std::vector<std::string> files_of(const FolderFiles& files, const std::string& path) {
  const std::string_view text = kProfileEndings[0];
  std::vector<std::string> found{path};
  if (!path.ends_with(text)) return found;
  const std::string name = path.substr(0, path.size() - text.size());
  for (const char* ending : kProfileEndings)
    if (ending != text && files.stamp(name + ending)) found.push_back(name + ending);
  return found;
}

}  // namespace

void put_task(JsonWriter& json, const RunTask& task) {
  json.object().member("task", task.id).member("kind", task.kind).member("state", task.state);
  json.member("began", task.began).text_or_null("ended", task.ended).key("files").array();
  for (const std::string& file : task.files) json.value(file);
  json.end().text_or_null(
      "checkpoint", task.checkpoint > 0 ? checkpoint_name(CheckpointNumber{task.checkpoint}) : "");
  json.text_or_null("error", task.error).end();
}

Result<RunTask> RunTasks::take_stacks(RunData& run, const std::vector<Rank>& ranks) {
  const std::lock_guard lock(mutex_);
  TRY_VOID(check(run, "stacks"));
  TRY(PendingRequest request,
      PendingRequest::leave(RunFolder(run.files().folder()), StacksRequest{ranks}));
  return add(run, "stacks", std::move(request));
}

Result<RunTask> RunTasks::take_profile(RunData& run, const ProfileRequest& wanted) {
  const std::lock_guard lock(mutex_);
  TRY_VOID(check(run, "profile"));
  TRY(PendingRequest request, PendingRequest::leave(RunFolder(run.files().folder()), wanted));
  return add(run, "profile", std::move(request), wanted.time + kAnswerWithin);
}

Result<RunTask> RunTasks::checkpoint(RunData& run) {
  const std::lock_guard lock(mutex_);
  TRY_VOID(check(run, "checkpoint"));
  TRY(PendingRequest request,
      PendingRequest::leave(RunFolder(run.files().folder()), CheckpointNowRequest{}));
  return add(run, "checkpoint", std::move(request), kCheckpointWithin);
}

Result<RunTask> RunTasks::stop(RunData& run) {
  const std::lock_guard lock(mutex_);
  TRY_VOID(check(run, "stop"));
  const std::string path = RunFolder(run.files().folder()).stop_request();
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600));
  if (file.get() < 0) return system_error(errno, "writing " + path);
  return add(run, "stop", std::nullopt);
}

Result<RunTask> RunTasks::find(RunData& run, const std::string& id) {
  for (const RunTask& task : all(run))
    if (task.id == id) return task;
  return Error{Errc::NotFound, "the run has no such task"};
}

std::vector<RunTask> RunTasks::all(RunData& run) {
  const std::lock_guard lock(mutex_);
  look(run);
  std::vector<RunTask> tasks;
  for (const auto& entry : entries_)
    if (entry->task.run == run.id()) tasks.push_back(entry->task);
  return tasks;
}

Result<Unit> RunTasks::check(RunData& run, std::string_view kind) {
  if (!run.live()) return Error{Errc::Unavailable, "the run is not running"};
  if (!run.is_ours())
    return Error{Errc::Permission,
                 "the run belongs to another user, or its launcher runs on another machine",
                 "start a dashboard there, as its user"};
  look(run);
  for (const auto& entry : entries_)
    if (entry->task.run == run.id() && entry->task.kind == kind && entry->task.state == "running")
      return Error{Errc::AlreadyExists,
                   fmt::format("task {} asks for the same and has no answer yet", entry->task.id)};
  return Unit{};
}

RunTask RunTasks::add(RunData& run, std::string kind, std::optional<PendingRequest> request,
                      Duration within) {
  auto entry = std::make_unique<Entry>(
      Entry{.task = {.id = std::to_string(next_++), .run = run.id(), .kind = std::move(kind)},
            .until = std::chrono::steady_clock::now() + within,
            .request = std::move(request)});
  entry->task.began = now_text();
  entries_.push_back(std::move(entry));
  if (entries_.size() > kTasksMax) entries_.pop_front();
  return entries_.back()->task;
}

void RunTasks::look(RunData& run) {
  for (const auto& entry : entries_) {
    RunTask& task = entry->task;
    if (task.run != run.id() || task.state != "running") continue;
    const auto answer = entry->request ? entry->request->take_answer() : std::nullopt;
    if (answer && answer->error.empty() && task.kind == "checkpoint")
      task.checkpoint = answer->checkpoint;
    else if (answer && answer->error.empty())
      task.files = files_of(run.files(), answer->path);
    if (answer)
      end(task, answer->error);
    else if (task.kind == "stop" && !run.live())
      end(task, "");
    else if (!run.live())
      end(task, "the run has ended");
    else if (task.kind != "stop" && std::chrono::steady_clock::now() > entry->until)
      end(task, "the run's train-run does not answer");
    if (task.state != "running") entry->request.reset();
  }
}

}  // namespace train
