#include "sdk/client/solo_session.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>

#include "lib/base/report_line.h"
#include "lib/base/time.h"
#include "lib/base/user_account.h"
#include "lib/base/utf8.h"
#include "lib/base/write_all.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/run_folder.h"
#include "lib/wire/reports.h"
#include "sdk/client/failure.h"
#include "sdk/client/metrics_dict.h"
#include "sdk/client/staging.h"

namespace train::sdk {
namespace {

// The generation of this program's pending checkpoints. Those that an earlier program left behind
// have the same generation, and are removed when the store opens.
constexpr Generation kGeneration{1};

constexpr std::uint32_t kAttemptsMax = 1u << 20;
constexpr std::string_view kStaging = ".staging-";  // and the process's id
constexpr std::string_view kStaged = "ckpt-";       // and the checkpoint's number

std::string staging_folder(const std::string& checkpoints) {
  return fmt::format("{}/{}{}", checkpoints, kStaging, ::getpid());
}

bool is_own_folder(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
         found.st_uid == file_user();
}

/// Remove what programs left in their staging folders when they were killed. The caller holds the
/// lock of `checkpoints`, so none of them still runs.
Result<Unit> remove_left_staging(FileSystem& fs, const std::string& checkpoints) {
  TRY(const auto entries, fs.list(checkpoints));
  for (const FolderEntry& entry : entries) {
    const std::string folder = join_path(checkpoints, entry.name);
    if (!entry.name.starts_with(kStaging) || !is_own_folder(folder)) continue;
    TRY(const auto staged, fs.list(folder));
    for (const FolderEntry& one : staged)
      if (one.name.starts_with(kStaged)) TRY_VOID(remove_folder_tree(join_path(folder, one.name)));
    (void)::rmdir(folder.c_str());  // fails where it holds what is not ours
  }
  return Unit{};
}

}  // namespace

void find_restorable(const std::string& checkpoints, WorkerInfo& info) {
  PosixFileSystem fs;
  const CheckpointStore store(fs, checkpoints);
  const RestoreChoice choice = value_or_throw(store.open_for_restore());
  for (const std::string& warning : choice.warnings)
    std::fprintf(stderr, "trainrun: %s\n", warning.c_str());
  if (!choice.checkpoint) return;
  info.restore_dir = choice.checkpoint->path;
  if (const std::int64_t epoch = epoch_of(choice.checkpoint->manifest.metrics); epoch >= 0)
    info.restored_epoch = epoch;
}

void join_run_folder(const std::string& path, WorkerInfo& info) {
  info.run_dir = path;
  if (const char* name = std::getenv("TRAINRUN_RUN_NAME")) info.run_name = name;
  if (info.rank != 0) return;
  PosixFileSystem fs;
  const RunFolder folder(path);
  value_or_throw(make_folders(fs, parent_path(folder.attempt(Attempt{0}))));
  for (info.attempt = 0;; ++info.attempt) {
    const auto made = fs.make_folder(folder.attempt(Attempt{info.attempt}));
    if (made) return;  // SoloSession locks it
    if (made.error().code != Errc::AlreadyExists || info.attempt == kAttemptsMax)
      throw_failure(made.error());
  }
}

SoloSession::SoloSession(WorkerInfo worker, std::string checkpoints)
    : WorkerSession(std::move(worker)),
      stop_file_(
          info().run_dir.empty() || info().world_size > 1
              ? ""
              : join_path(RunFolder(info().run_dir).attempt(Attempt{info().attempt}), "stop")),
      store_(fs_, std::move(checkpoints)),
      stager_([this](CheckpointStaged staged) { resolve(std::move(staged)); }) {
  if (info().run_dir.empty() || info().rank != 0) return;
  // Whoever follows the program looks at no later attempt while this one is locked.
  const std::string attempt = RunFolder(info().run_dir).attempt(Attempt{info().attempt});
  attempt_lock_.reset(::open(attempt.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (attempt_lock_.get() >= 0) (void)::flock(attempt_lock_.get(), LOCK_EX | LOCK_NB);
}

void SoloSession::print(const std::string& line) const {
  if (info().world_size > 1) {
    std::fprintf(stdout, "[rank %d] %s\n", info().rank, line.c_str());
  } else {
    std::fprintf(stdout, "%s\n", line.c_str());
  }
}

void SoloSession::report(const Dict& metrics, const Checkpoint* checkpoint) {
  const Metrics flat = flatten(metrics);
  std::unique_lock order(report_order_);
  if (finished_) throw Failure("unavailable", "report: the loop is over");
  if (info().validating && checkpoint != nullptr)
    throw Failure("invalid_argument", "report: a process that validates makes no checkpoints");
  const bool kept = checkpoint != nullptr && info().rank == 0;
  std::optional<CheckpointStager::Job> job;
  if (kept) job = stage(flat, report_seq_ + 1, *checkpoint);
  ++report_seq_;
  print(fmt::format("report {}: {}", report_seq_, to_line(flat)));
  if (!info().run_dir.empty() && info().rank == 0)
    log({.attempt = info().attempt,
         .report_seq = report_seq_,
         .has_checkpoint = kept,
         .metrics = flat});
  if (job) stager_.add(std::move(*job));  // behind the report's line: resolve() prints one, too
  if (checkpoint != nullptr && !kept && checkpoint_seq_++ == 0) {
    std::fprintf(
        stderr,
        "trainrun: without train-run only rank 0's checkpoints are kept, not those of rank %d\n",
        info().rank);
  }
  order.unlock();
  if (should_stop()) stop_at_report(kept, flat);
}

bool SoloSession::should_stop() const {
  return !stop_file_.empty() && ::access(stop_file_.c_str(), F_OK) == 0;
}

/// Stop the loop at the newest report: with its checkpoint, or that of on_stop's function.
void SoloSession::stop_at_report(bool has_checkpoint, const Metrics& metrics) {
  thread_local bool in_function = false;
  if (in_function) return;  // a report from within on_stop's function
  if (const auto make = stop_function(); make && !has_checkpoint) {
    struct Leave {
      ~Leave() { in_function = false; }
    } leave;
    in_function = true;
    const Checkpoint checkpoint = make();
    const std::lock_guard order(report_order_);
    stager_.add(stage(metrics, report_seq_, checkpoint));
  }
  (void)wait_for_checkpoint();
  throw Stopped("somebody has asked the program to stop");
}

/// Append the report to the attempt's metrics.jsonl. After an error it stays as it is, with at most
/// one torn line, the last. The caller holds report_order_.
void SoloSession::log(const ReportRecord& report) {
  if (log_failed_) return;
  const std::string path =
      join_path(RunFolder(info().run_dir).attempt(Attempt{report.attempt}), "metrics.jsonl");
  std::string line;
  append_report_line(line, report, format_utc(std::chrono::system_clock::now()));
  if (log_.get() < 0)
    log_.reset(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  const auto written = log_.get() < 0 ? Result<Unit>(system_error(errno, "opening " + path))
                                      : write_all(log_.get(), line, path);
  if (!written.has_error()) return;
  log_failed_ = true;
  std::fprintf(stderr, "trainrun: reports are not kept from now on: %s\n",
               written.error().describe().c_str());
}

/// Append a line to solo.jsonl of the attempt, if there is a run's folder. Best effort.
void SoloSession::say(const boost::json::object& saying) {
  if (info().run_dir.empty() || info().rank != 0) return;
  const std::string path =
      join_path(RunFolder(info().run_dir).attempt(Attempt{info().attempt}), "solo.jsonl");
  const std::lock_guard lock(sayings_mutex_);
  if (sayings_.get() < 0)
    sayings_.reset(
        ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (sayings_.get() >= 0)
    (void)write_all(sayings_.get(), boost::json::serialize(saying) + "\n", path);
}

/// Put the files into the staging folder, and return a job for the stager's thread that does the
/// rest. The caller holds report_order_.
CheckpointStager::Job SoloSession::stage(const Metrics& metrics, std::uint64_t report_seq,
                                         const Checkpoint& checkpoint) {
  if (!folder_lock_) open_store();
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] {
      return unresolved_.size() < static_cast<std::size_t>(kUnresolvedCheckpointsMax);
    });
  }
  CheckpointStaged staged;
  staged.checkpoint_seq = checkpoint_seq_ + 1;
  staged.report_seq = report_seq;
  staged.dir =
      fmt::format("{}/{}{}", staging_folder(store_.folder()), kStaged, staged.checkpoint_seq);
  const Checkpoint::Impl& impl = *checkpoint.impl();
  staged.metadata_json = metadata_json(impl);
  stage_directory(impl, staged.dir);
  checkpoint_seq_ = staged.checkpoint_seq;
  {
    const std::lock_guard lock(mutex_);
    unresolved_.emplace(staged.checkpoint_seq, metrics);
  }
  return {.staged = std::move(staged),
          .write = impl.form == Checkpoint::Impl::Form::Write ? impl.write : nullptr};
}

std::optional<std::filesystem::path> SoloSession::wait_for_checkpoint() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return unresolved_.empty(); });
  return newest_kept_;
}

/// Return the checkpoints of this folder; nobody validates them.
std::vector<AnsweredCheckpoint> SoloSession::reported_checkpoints(bool, std::chrono::milliseconds) {
  (void)wait_for_checkpoint();
  std::vector<AnsweredCheckpoint> reported;
  if (info().validating) return reported;
  for (const ListedCheckpoint& one : value_or_throw(store_.list())) {
    if (one.manifest.has_error()) continue;
    AnsweredCheckpoint answer{one.number.value, one.path, "committed", "", ""};
    if (one.validation) {
      answer.status = to_string(one.validation->status);
      answer.error = one.validation->error;
    }
    append_report(0, true, one.metrics(), answer.metrics);
    reported.push_back(std::move(answer));
  }
  return reported;
}

void SoloSession::open_store() {
  value_or_throw(make_folders(fs_, store_.folder()));
  auto lock = fs_.lock(join_path(store_.folder(), ".lock"));
  if (lock.has_error()) {
    throw_failure(Error{lock.error().code,
                        fmt::format("another program writes checkpoints into {}", store_.folder()),
                        "run in another working directory, or end that program"});
  }
  value_or_throw(store_.open(kGeneration.next()));
  if (const auto removed = remove_left_staging(fs_, store_.folder()); removed.has_error()) {
    std::fprintf(stderr, "trainrun: removing what an earlier program left: %s\n",
                 removed.error().describe().c_str());
  }
  folder_lock_ = std::move(*lock);
}

/// Commit what was staged, on the stager's thread.
void SoloSession::resolve(CheckpointStaged staged) {
  Metrics metrics;
  {
    const std::lock_guard lock(mutex_);
    metrics = unresolved_.at(staged.checkpoint_seq);
  }
  const auto committed = commit(staged, std::move(metrics));
  remove_folder(staged.dir);
  if (committed.has_error()) {
    std::fprintf(stderr, "trainrun: the checkpoint of report %llu was not kept: %s\n",
                 static_cast<unsigned long long>(staged.report_seq),
                 committed.error().describe().c_str());
  } else {
    print(fmt::format("checkpoint of report {}: {}", staged.report_seq, *committed));
    say({{"checkpoint", committed->substr(committed->rfind('/') + 1)},
         {"report_seq", staged.report_seq}});
  }
  {
    const std::lock_guard lock(mutex_);
    unresolved_.erase(staged.checkpoint_seq);
    newest_kept_.reset();
    if (committed) newest_kept_ = *committed;
  }
  changed_.notify_all();
}

Result<std::string> SoloSession::commit(const CheckpointStaged& staged, Metrics metrics) {
  if (!staged.error.empty()) return Error{Errc::InvalidArgument, staged.error};
  CommitRequest request;
  request.pending = {.generation = kGeneration,
                     .attempt = Attempt{0},
                     .checkpoint_seq = CheckpointSeq{staged.checkpoint_seq}};
  TRY(request.number, store_.next_number());
  TRY(auto part, write_shard(fs_, store_.folder(), request.pending, Rank{0}, staged.dir));
  request.shards.push_back(std::move(part));
  request.created = format_utc(std::chrono::system_clock::now());
  request.metrics = std::move(metrics);
  boost::system::error_code unread;
  const auto metadata = boost::json::parse(staged.metadata_json, unread);
  if (unread)
    return Error{Errc::Internal,
                 fmt::format("reading the checkpoint's metadata: {}", unread.message())};
  request.metadata = metadata.as_object();
  const auto manifest = store_.commit(request, [] { return Result<Unit>(Unit{}); });
  if (manifest.has_error()) {
    // The commit's own error says more than one of discard(); the next open() removes what is left.
    (void)store_.discard(request.pending);
    return manifest.error();
  }
  return store_.path_of(request.number);
}

std::vector<std::string> SoloSession::all_gather(const std::string& name, const std::string& mine,
                                                 std::chrono::milliseconds) {
  if (info().world_size > 1) {
    throw Failure("unavailable", fmt::format("'{}' needs trainrun to connect {} ranks, and this "
                                             "program was started without it (run it "
                                             "with train-run, or use the process group)",
                                             name, info().world_size));
  }
  check_collective(name, mine);
  return {mine};
}

void SoloSession::once_per_node(const std::string& name, const std::function<void()>& f) {
  if (info().local_world_size > 1) {
    throw Failure("unavailable", fmt::format("once_per_node('{}') needs trainrun to connect the {} "
                                             "ranks of this node, and this program was "
                                             "started without it",
                                             name, info().local_world_size));
  }
  std::unique_lock lock(mutex_);
  for (auto it = once_done_.find(name); it != once_done_.end(); it = once_done_.find(name)) {
    if (it->second) return;
    if (once_runner_[name] == std::this_thread::get_id()) {
      throw Failure("invalid_argument",
                    fmt::format("once_per_node('{}') is called by its own function", name));
    }
    changed_.wait(lock);
  }
  once_done_[name] = false;
  once_runner_[name] = std::this_thread::get_id();
  lock.unlock();
  try {
    f();
  } catch (...) {  // pass it to the caller, who may try again
    lock.lock();
    once_done_.erase(name);
    changed_.notify_all();
    throw;
  }
  lock.lock();
  once_done_[name] = true;
  changed_.notify_all();
}

void SoloSession::set_result(std::string json) {
  if (json.size() > kResultBytesMax) {
    throw Failure("invalid_argument", fmt::format("set_result: {} bytes of JSON, at most {} fit",
                                                  json.size(), kResultBytesMax));
  }
  const std::lock_guard lock(mutex_);
  result_ = std::move(json);
}

void SoloSession::send_error(const UserError& error) {
  constexpr std::size_t kSaidBytesMax = 128u << 10;
  const auto cut = [](const std::string& text) { return utf8_text(text, kSaidBytesMax); };
  say({{"error",
        {{"type", cut(error.type)}, {"what", cut(error.what)}, {"stack", cut(error.stack)}}}});
}

void SoloSession::finish() {
  stager_.drain();
  const std::lock_guard order(report_order_);
  if (finished_) return;
  finished_ = true;
  if (result_) {
    print("result: " + *result_);
    boost::system::error_code unread;
    say({{"result", boost::json::parse(*result_, unread)}});
  }
  if (folder_lock_) remove_folder(staging_folder(store_.folder()));
  std::fflush(stdout);
}

}  // namespace train::sdk
