#include "launcher/cluster/run_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/cluster/start_frames.h"
#include "lib/base/host.h"
#include "lib/base/time.h"
#include "lib/storage/storage_mark.h"

namespace train {
namespace {

std::string now_text() { return format_utc(std::chrono::system_clock::now()); }

std::string random_hex() {
  std::uint64_t value = 0;
  if (::getrandom(&value, sizeof value, 0) != sizeof value)
    value =
        static_cast<std::uint64_t>(::getpid()) << 32 | static_cast<std::uint64_t>(::time(nullptr));
  return fmt::format("{:012x}", value & 0xffffffffffffULL);
}

std::filesystem::path registry_dir() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
    return std::filesystem::path(state) / "trainrun/runs";
  const char* home = std::getenv("HOME");
  return std::filesystem::path(home != nullptr ? home : "/tmp") / ".local/state/trainrun/runs";
}

// exit.json of an earlier launcher: code 0 means that there is nothing left to do.
std::optional<int> finished_code(FileSystem& files, const RunFolder& folder) {
  const auto text = read_small_file(files, folder.exit_json(), 1u << 20);
  if (!text) return std::nullopt;
  boost::system::error_code ec;
  const auto json = boost::json::parse(*text, ec);
  if (ec || !json.is_object()) return std::nullopt;
  const auto* code = json.as_object().if_contains("code");
  return code != nullptr && code->is_int64()
             ? std::optional<int>(static_cast<int>(code->as_int64()))
             : std::nullopt;
}

}  // namespace

Result<ResumePoint> resume_point(const JobSpec& spec, const RunFolder& folder) {
  PosixFileSystem files;
  RunHistory history(spec.run_config.failure_config, spec.scaling_config.num_workers.elastic());
  TRY(const auto journal, read_journal(files, folder.journal()));
  for (const JournalRecord& record : journal.records)
    history.add(record.epoch, record.time, record.event);
  if (finished_code(files, folder) == 0 || history.finished())
    return Error{Errc::AlreadyExists, "it has finished"};
  ResumePoint point{.next = history.next_attempt(), .checkpoint = "", .warnings = {}};
  if (history.living()) point.living = history.living()->id;
  TRY(auto choice, CheckpointStore(files, folder.checkpoints()).open_for_restore());
  point.warnings = std::move(choice.warnings);
  point.checkpoint =
      choice.checkpoint ? checkpoint_name(choice.checkpoint->number) : spec.resume_from_checkpoint;
  return point;
}

Result<std::unique_ptr<RunRecord>> RunRecord::open(const JobSpec& spec,
                                                   const RunRecordOptions& options) {
  PosixFileSystem files;
  const std::string& storage = spec.run_config.storage_path;
  const std::string& name = spec.run_config.name;
  auto created = options.unique_name ? create_unique_run_folder(files, storage, name)
                                     : create_run_folder(files, storage, name);
  const bool resumed = created.has_error() && created.error().code == Errc::AlreadyExists;
  if (created.has_error() && !resumed) return created.error();
  std::unique_ptr<RunRecord> record(
      new RunRecord(resumed ? RunFolder(join_path(storage, name)) : *created));
  record->resumed_ = resumed;
  record->name_ = std::filesystem::path(record->folder_.path()).filename();
  if (resumed && finished_code(record->files_, record->folder_) == 0) {
    return Error{Errc::AlreadyExists,
                 fmt::format("the run {} has finished: {}", name, record->folder_.path()),
                 "give run_config.name another value, or remove that folder"};
  }
  TRY_VOID(record->take_ownership(options));
  TRY_VOID(record->read_start(spec, options.changed));
  // It goes on: how an earlier launcher ended it no longer holds.
  if (const auto removed = files.remove_file(record->folder_.exit_json());
      removed.has_error() && removed.error().code != Errc::NotFound)
    return removed.error();
  register_run(record->name_, record->folder_.path());
  return record;
}

Result<Unit> RunRecord::take_ownership(const RunRecordOptions& options) {
  const LockHolder self{host_name(), ::getpid(), now_text()};
  if (options.force) {
    TRY(auto lock, RunLock::take_over(files_, folder_.lock(), self));
    lock_.emplace(std::move(lock));
  } else {
    auto lock = RunLock::acquire(files_, folder_.lock(), self);
    if (!lock) {
      Error error = std::move(lock).error();
      if (error.hint.empty())
        error.hint =
            "wait for it, stop it with `train-run stop`, or take the run over with --force";
      return error;
    }
    lock_.emplace(std::move(*lock));
  }
  TRY(journal_, Journal::open(files_, folder_.journal()));
  run_id_ = fmt::format("{}-{}", name_, random_hex());
  for (const JournalRecord& record : journal_->replayed().records) {
    if (const auto* id = record.event.if_contains("run_id"); id != nullptr && id->is_string()) {
      run_id_ = std::string(id->as_string());
      break;
    }
  }
  TRY(epoch_,
      journal_->take_epoch(
          now_text(),
          {{"run_id", run_id_}, {"host", self.host}, {"pid", self.pid}, {"build", options.build}}));
  storage_mark_ = fmt::format("{} {}", run_id_, random_hex());
  return leave_storage_mark(files_, folder_.path(), epoch_, storage_mark_);
}

Epoch RunRecord::attempt_epoch(Attempt attempt) const {
  return start_.living && start_.living->id == attempt ? start_.living->epoch : epoch_;
}

void RunRecord::read_history(const JobSpec& spec) {
  RunHistory history(spec.run_config.failure_config, spec.scaling_config.num_workers.elastic());
  for (const JournalRecord& record : journal_->replayed().records)
    history.add(record.epoch, record.time, record.event);
  start_.first_attempt = history.next_attempt();
  start_.failures = history.failures();
  start_.living = history.living();
  start_.finished = history.finished();
  if (!history.attempts().empty()) start_.restarts = history.restarts() + (start_.living ? 0 : 1);
  past_ = history.attempts();
}

/// What its workers have handed over, and no launcher has committed yet.
Result<std::vector<PendingCheckpoint>> RunRecord::pending_of_living() {
  std::vector<PendingCheckpoint> pending;
  if (!start_.living) return pending;
  const auto entries = files_.list(folder_.checkpoints());
  if (entries.has_error()) {
    if (entries.error().code == Errc::NotFound) return pending;
    return entries.error();
  }
  for (const FolderEntry& entry : *entries) {
    const auto parsed = parse_pending_name(entry.name);
    if (parsed && parsed->attempt == start_.living->id && parsed->epoch == start_.living->epoch)
      pending.push_back(*parsed);
  }
  return pending;
}

/// The newest checkpoint of the living attempt is committed, whether or not the journal says so.
void RunRecord::find_settled() {
  const auto listed = store_->list();
  if (!listed || !start_.living) return;
  for (const ListedCheckpoint& one : *listed) {
    if (one.manifest.has_error() || one.manifest->attempt != start_.living->id ||
        one.manifest->epoch != start_.living->epoch)
      continue;
    start_.living->settled_index = one.manifest->ordinal.value;
    start_.living->settled_path = one.path;
  }
}

Result<Unit> RunRecord::read_start(const JobSpec& spec, bool changed) {
  read_history(spec);
  if (changed && start_.living) {
    return Error{Errc::AlreadyExists,
                 fmt::format("attempt {} of {} has not ended: its workers may still run, with the "
                             "spec they began with",
                             start_.living->id.value, name_),
                 fmt::format("take it up with `train-run resume {}`, stop it with Ctrl-C or "
                             "`train-run stop`, and resume it with --set then",
                             folder_.path())};
  }
  store_.emplace(files_, folder_.checkpoints());
  TRY(const auto keep, pending_of_living());
  TRY_VOID(store_->open(epoch_, keep));
  find_settled();
  if (resumed_) {
    TRY(auto choice, store_->open_for_restore());
    warnings_ = std::move(choice.warnings);
    if (choice.checkpoint) {
      start_.checkpoint = CheckpointInfo{choice.checkpoint->number.value, choice.checkpoint->path,
                                         epoch_of(choice.checkpoint->manifest.metrics)};
    }
  }
  TRY(const CheckpointNumber next, store_->next_number());
  start_.last_checkpoint_number = next.value - 1;
  if (!start_.checkpoint && !spec.resume_from_checkpoint.empty()) {
    auto manifest = verify_checkpoint(files_, spec.resume_from_checkpoint);
    if (!manifest)
      return Error(manifest.error())
          .with_context("resume_from_checkpoint " + spec.resume_from_checkpoint);
    start_.checkpoint = CheckpointInfo{0, spec.resume_from_checkpoint, epoch_of(manifest->metrics)};
  }
  start_.expected_nodes = std::max<std::size_t>(1, spec.cluster.nodes.size());
  return Unit{};
}

Result<Unit> RunRecord::put_specs(const std::string& spec_text, const std::string& resolved_spec) {
  TRY_VOID(replace_private_file(folder_.spec(), spec_text));
  return replace_private_file(folder_.resolved_spec(), resolved_spec);
}

Result<Unit> RunRecord::sync_specs() {
  for (const std::string& path : {folder_.spec(), folder_.resolved_spec()}) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return system_error(errno, "opening " + path);
    const int failed = ::fsync(fd) == 0 ? 0 : errno;
    ::close(fd);
    if (failed != 0) return system_error(failed, "syncing " + path);
  }
  return files_.sync_folder(folder_.path());
}

void register_run(const std::string& name, const std::string& path) {
  std::error_code ec;
  const auto dir = registry_dir();
  std::filesystem::create_directories(dir, ec);
  if (ec) return;
  std::ofstream(dir / name, std::ios::trunc) << path << "\n";
}

Result<std::string> find_run(const std::string& run, const std::string& storage_path) {
  std::error_code ec;
  const auto is_run = [&](const std::filesystem::path& path) {
    return std::filesystem::exists(path / "events.jsonl", ec);
  };
  if (is_run(run)) return std::filesystem::absolute(run, ec).string();
  if (run.find('/') == std::string::npos) {
    if (is_run(std::filesystem::path(storage_path) / run))
      return (std::filesystem::path(storage_path) / run).string();
    std::string path;
    if (std::ifstream file(registry_dir() / run); std::getline(file, path) && is_run(path))
      return path;
  }
  return Error{Errc::NotFound,
               fmt::format("no run '{}': neither a run's folder, nor in {}, nor in {}", run,
                           storage_path, registry_dir().string()),
               "give the run's folder, or --storage-path"};
}

}  // namespace train
