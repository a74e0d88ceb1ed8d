#include "launcher/cluster/run/run_record.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>

#include "launcher/cluster/checkpoints/run_checkpoints.h"
#include "launcher/cluster/code/code_keeper.h"
#include "launcher/cluster/groups/groups_folder.h"
#include "launcher/cluster/run/folder_owner.h"
#include "launcher/cluster/run/run_registry.h"
#include "launcher/cluster/run/time_notes.h"
#include "launcher/cluster/sweep/sweep_folder.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/host.h"
#include "lib/base/metrics.h"
#include "lib/base/terminal_text.h"
#include "lib/base/time.h"
#include "lib/net/run_owner.h"
#include "lib/storage/object_checkpoint.h"
#include "lib/storage/object_checkpoint_store.h"
#include "lib/storage/storage_marker.h"

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

// Return the code in exit.json of an earlier launcher. Code 0 means that nothing is left to do.
std::optional<int> finished_code(const Result<std::string>& exit_json) {
  if (!exit_json) return std::nullopt;
  boost::system::error_code ec;
  const auto json = boost::json::parse(*exit_json, ec);
  if (ec || !json.is_object()) return std::nullopt;
  const auto* code = json.as_object().if_contains("code");
  return code != nullptr && code->is_int64()
             ? std::optional<int>(static_cast<int>(code->as_int64()))
             : std::nullopt;
}

std::optional<int> finished_code(FileSystem& files, const RunFolder& folder) {
  constexpr std::uint64_t kBytesMax = 64u << 20;  // a result of 1 MiB is only a part of it
  return finished_code(read_small_file(files, folder.exit_json(), kBytesMax));
}

Result<Unit> sync_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return system_error(errno, "opening " + path);
  const int failed = ::fsync(fd) == 0 ? 0 : errno;
  ::close(fd);
  if (failed != 0) return system_error(failed, "syncing " + path);
  return Unit{};
}

}  // namespace

Result<ResumePoint> resume_point(const JobSpec& spec, const RunFolder& folder) {
  PosixFileSystem files;
  RunHistory history(spec.run_config.failure_config, spec.scaling_config.num_workers.elastic());
  TRY(const auto journal, read_journal(files, folder.journal()));
  for (const JournalRecord& record : journal.records)
    history.add(record.generation, record.time, record.event);
  if (finished_code(files, folder) == 0 || history.finished())
    return Error{Errc::AlreadyExists, "it has finished"};
  ResumePoint point{.next = history.next_attempt(), .checkpoint = "", .warnings = {}};
  if (history.living()) point.living = history.living()->id;
  const RunConfig& config = spec.run_config;
  TRY(const auto checkpoints, open_checkpoints(is_object_url(config.storage_path)
                                                   ? run_location(config.storage_path, config.name)
                                                   : folder.path(),
                                               files));
  TRY(auto choice, checkpoints.store->open_for_restore());
  point.warnings = std::move(choice.warnings);
  point.checkpoint =
      choice.checkpoint ? checkpoint_name(choice.checkpoint->number) : spec.resume_from_checkpoint;
  return point;
}

Result<std::unique_ptr<RunRecord>> RunRecord::open(const JobSpec& spec,
                                                   const RunRecordOptions& options) {
  TRY(auto record, is_object_url(spec.run_config.storage_path)
                       ? make_remote(spec, options.unique_name)
                       : make_folder(spec, options.unique_name));
  record->name_ = std::filesystem::path(record->folder_.path()).filename();
  TRY_VOID(record->check_unfinished());
  TRY_VOID(record->take_ownership(spec, options));
  TRY_VOID(record->read_start(spec));
  TRY_VOID(record->leave_marker());
  // The run continues, so an earlier launcher's account of its end no longer holds.
  if (const auto removed = record->files_.remove_file(record->folder_.exit_json());
      removed.has_error() && removed.error().code != Errc::NotFound)
    return removed.error();
  if (record->remote_) TRY_VOID(record->remote_->store().remove("exit.json"));
  // A trial is found by its sweep, and a replica group by its run.
  const std::string& storage = spec.run_config.storage_path;
  if (!holds_trials(storage) && !holds_groups(storage))
    register_run(record->name_, record->location());
  return record;
}

Result<Unit> RunRecord::check_unfinished() {
  if (!resumed_) return Unit{};
  if (const std::string taker = taker_of_workers(folder_); !taker.empty())
    return Error{Errc::AlreadyExists,
                 fmt::format("the run {} has finished: {} has its workers", name_, taker),
                 "give run_config.name another value"};
  const auto code = remote_ ? finished_code(remote_->exit_json()) : finished_code(files_, folder_);
  if (code != 0) return Unit{};
  return Error{Errc::AlreadyExists, fmt::format("the run {} has finished: {}", name_, location()),
               "give run_config.name another value, or remove that folder"};
}

Result<std::unique_ptr<RunRecord>> RunRecord::make_folder(const JobSpec& spec, bool unique_name) {
  PosixFileSystem files;
  const std::string& storage = spec.run_config.storage_path;
  const std::string& name = spec.run_config.name;
  auto created = unique_name ? create_unique_run_folder(files, storage, name)
                             : create_run_folder(files, storage, name);
  const bool there = created.has_error() && created.error().code == Errc::AlreadyExists;
  if (created.has_error() && !there) return created.error();
  std::unique_ptr<RunRecord> record(
      new RunRecord(there ? RunFolder(join_path(storage, name)) : *created));
  record->resumed_ = there;
  return record;
}

/// Make the record of a run in an object store. The store decides whether the run exists, whatever
/// the working folder contains.
Result<std::unique_ptr<RunRecord>> RunRecord::make_remote(const JobSpec& spec, bool unique_name) {
  PosixFileSystem files;
  const RunConfig& config = spec.run_config;
  TRY_VOID(check_run_name(config.name));
  for (int n = 1;; ++n) {
    const std::string name = n == 1 ? config.name : fmt::format("{}-{}", config.name, n);
    TRY(auto remote, RemoteRun::open(run_location(config.storage_path, name)));
    TRY(const bool there, remote->exists());
    if (there && unique_name) continue;
    const std::string path = run_path(config.storage_path, name);
    TRY_VOID(make_folders(files, path));
    std::unique_ptr<RunRecord> record(new RunRecord(RunFolder(path)));
    record->resumed_ = there;
    record->remote_ = std::move(remote);
    return record;
  }
}

/// Claim the run in the store, now that we hold the working folder: nobody else may hold the run
/// there.
Result<Unit> RunRecord::take_remote(const RunRecordOptions& options) {
  const LockHolder self{host_name(), ::getpid(), now_text()};
  TRY_VOID(remote_->claim(self, folder_, options.force, [&](const std::string& text) {
    if (options.say) options.say(text);
  }));
  if (!options.restarted) TRY_VOID(remote_->drop_stop_request());
  if (resumed_) return remote_->fetch(folder_);
  // What is here belongs to a run that is no longer in the store.
  TRY(const auto left, files_.list(folder_.path()));
  for (const FolderEntry& entry : left) {
    if (entry.name == ".lock" || entry.name == ".url") continue;
    const std::string path = join_path(folder_.path(), entry.name);
    TRY_VOID(entry.kind == FileKind::Folder ? remove_tree(files_, path) : files_.remove_file(path));
  }
  return Unit{};
}

Result<Unit> RunRecord::check_owner() const {
  if (!lock_) return Error{Errc::Fenced, "the run is over"};
  TRY_VOID(lock_->check());
  return remote_ ? remote_->check_owner() : Unit{};
}

// Check who owns a folder that already exists. If it is somebody else's, they can read and change
// what we put into it. If many users share a storage_path, one of them may also have made the
// folder to get in our way.
// Make the owner key together with the run, before anything else mentions the run's id.
Result<Unit> RunRecord::take_owner_key(const std::optional<KeptRun>& kept) {
  constexpr std::uint64_t kKeyBytesMax = 256;
  constexpr const char* kKeyObject = "owner-key";
  auto found = remote_ ? remote_->store().get(kKeyObject, kKeyBytesMax)
                       : read_small_file(files_, folder_.owner_key(), kKeyBytesMax);
  if (found.has_error() && found.error().code != Errc::NotFound)
    return std::move(found).error().with_context("whose run it is");
  if (found.has_value()) {
    while (!found->empty() && std::isspace(static_cast<unsigned char>(found->back())) != 0)
      found->pop_back();
    if (is_owner_key(*found)) {
      owner_key_ = std::move(*found);
      return Unit{};
    }
  }
  if (!run_id_.empty())  // nodes would reject a new key
    return Error{
        Errc::Corrupt,
        fmt::format(
            "the key of the run {} is lost: nodes will not accept this launcher as its owner",
            name_),
        remote_ ? "" : "bring back " + folder_.owner_key()};
  owner_key_ = kept ? kept->owner_key : make_owner_key();
  if (remote_) return remote_->store().put(kKeyObject, owner_key_);
  TRY_VOID(replace_private_file(folder_.owner_key(), owner_key_));
  return sync_file(folder_.owner_key());
}

Result<Unit> RunRecord::take_ownership(const JobSpec& spec, const RunRecordOptions& options) {
  const LockHolder self{host_name(), ::getpid(), now_text()};
  if (resumed_ && !remote_) TRY_VOID(check_folder_owner(folder_.path(), "the run " + name_));
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
  // Another launcher may have come between us and the lock, and may have ended since.
  if (!resumed_ && !remote_ && files_.status(folder_.journal()))
    return Error{Errc::AlreadyExists,
                 fmt::format("another train-run has just begun the run {}", name_),
                 "follow it with train-run attach, or give run_config.name another value"};
  TRY_VOID(check_unfinished());
  if (options.restarted) {
    (void)files_.rename(folder_.stop_request_taken(), folder_.stop_request());
  } else {  // they were for an earlier launcher
    (void)files_.remove_file(folder_.stop_request());
    (void)files_.remove_file(folder_.stop_request_taken());
  }
  if (remote_) TRY_VOID(take_remote(options));
  TRY(journal_, Journal::open(files_, folder_.journal(), {},
                              remote_ ? remote_->journal_copy() : JournalCopy{}));
  for (const JournalRecord& record : journal_->replayed().records) {
    if (const auto* id = record.event.if_contains("run_id"); id != nullptr && id->is_string()) {
      run_id_ = std::string(id->as_string());
      const auto* apart = record.event.if_contains("apart");
      if (apart != nullptr && apart->is_string()) apart_ = std::string(apart->as_string());
      break;
    }
  }
  const bool begins = run_id_.empty();
  TRY_VOID(take_owner_key(begins ? options.kept : std::nullopt));
  if (begins && options.kept) run_id_ = options.kept->run_id;
  TRY_VOID(read_history(spec, options));  // while nothing has changed, it may refuse
  const std::string mark = "-" + owner_digest(owner_key_);
  if (run_id_.empty()) run_id_ = name_ + mark;
  if (!run_id_.ends_with(mark)) {
    return Error{Errc::Corrupt,
                 fmt::format("the key of the run {} belongs to another run: nodes will not accept "
                             "this launcher as its owner",
                             name_),
                 remote_ ? "" : "bring back " + folder_.owner_key()};
  }
  start_.run_id = run_id_;
  start_.asked_ms = asked_ms();
  start_.keeps_workers = options.keeps_workers;
  if (begins && options.kept) begin_with(*options.kept);
  TRY(generation_,
      journal_->take_generation(now_text(),
                                {{"run_id", run_id_},
                                 {"host", self.host},
                                 {"pid", self.pid},
                                 {"build", options.build},
                                 {"by_hand", !options.restarted},
                                 {"first_attempt", start_.first_attempt.value},
                                 {"apart", apart_},
                                 {"nodes", boost::json::value_from(nodes_)}},
                                begins && options.kept ? options.kept->generation : Generation{}));
  if (remote_) TRY_VOID(RemoteRun::note_generation(folder_, generation_));
  storage_marker_ = fmt::format("{} {}", run_id_, random_hex());
  return Unit{};
}

// Nodes that may take over the run take the earlier mark as a sign that nobody has yet, so this
// comes after what may fail.
Result<Unit> RunRecord::leave_marker() {
  return remote_ ? remote_->leave_marker(generation_, storage_marker_)
                 : leave_storage_marker(files_, folder_.path(), generation_, storage_marker_);
}

/// Return when the first launcher of the run took it up.
std::int64_t RunRecord::asked_ms() const {
  const auto& records = journal_->replayed().records;
  const auto asked =
      records.empty() ? std::chrono::system_clock::now() : parse_utc(records.front().time);
  return std::chrono::duration_cast<milliseconds>(asked.time_since_epoch()).count();
}

Generation RunRecord::attempt_generation(Attempt attempt) const {
  return start_.living && start_.living->id == attempt ? start_.living->generation : generation_;
}

namespace {

/// Return the number of an event's member, or nothing if it has none.
std::optional<std::uint64_t> number_in(const boost::json::object& event, std::string_view name) {
  const auto* value = event.if_contains(name);
  if (value == nullptr) return std::nullopt;
  boost::system::error_code ec;
  const auto number = value->to_number<std::uint64_t>(ec);
  return ec ? std::nullopt : std::optional(number);
}

}  // namespace

std::map<CheckpointNumber, PendingCheckpoint> RunRecord::committed_before() const {
  std::map<std::uint64_t, Generation> began;  // of each attempt
  std::map<CheckpointNumber, PendingCheckpoint> committed;
  for (const JournalRecord& record : journal_->replayed().records) {
    const auto* event = record.event.if_contains("event");
    const auto attempt = number_in(record.event, "attempt");
    if (event == nullptr || !attempt) continue;
    if (*event == "attempt_started") began[*attempt] = record.generation;
    const auto number = number_in(record.event, "checkpoint");
    const auto checkpoint_seq = number_in(record.event, "checkpoint_seq");
    if (*event != "checkpoint_committed" || !number || !checkpoint_seq) continue;
    committed[CheckpointNumber{*number}] = {began[*attempt],
                                            Attempt{static_cast<std::uint32_t>(*attempt)},
                                            CheckpointSeq{*checkpoint_seq}};
  }
  return committed;
}

Result<Unit> RunRecord::read_history(const JobSpec& spec, const RunRecordOptions& options) {
  RunHistory& history =
      history_.emplace(spec.run_config.failure_config, spec.scaling_config.num_workers.elastic());
  for (const JournalRecord& record : journal_->replayed().records)
    history.add(record.generation, record.time, record.event);
  if (!options.restarted) history.started_by_hand();
  nodes_ = spec.cluster.finds_nodes() ? history.with_nodes_of_living(spec.cluster.nodes)
                                      : spec.cluster.nodes;
  history.number_nodes_by(nodes_);
  start_.first_attempt = history.next_attempt();
  start_.failures = history.failures();
  start_.placed = history.placed();
  start_.living = history.living();
  start_.ended = history.ended();
  past_ = history.attempts();
  read_time(history);
  if (start_.living) TRY_VOID(check_living(options, history));
  if (!past_.empty()) start_.restarts = history.restarts() + (start_.living ? 0 : 1);
  return Unit{};
}

/// Nodes know the workers of an earlier run under its identity, so this run has the same.
void RunRecord::begin_with(const KeptRun& kept) {
  start_.first_attempt = kept.workers.attempt;
  start_.placed = kept.workers.placement;
  start_.kept = kept.workers;
  apart_ = "+" + name_;
}

/// Find out what the time of the run's workers has been used for so far.
void RunRecord::read_time(const RunHistory& history) {
  const auto since = [now = std::chrono::system_clock::now()](const std::string& time) {
    return std::max<Duration>(Duration{}, now - parse_utc(time));
  };
  start_.time = history.worker_time();
  if (!history.down_since().empty()) {
    start_.down_for = since(history.down_since());
    start_.down_places = past_.back().world_size;
  }
  if (!start_.living) return;
  start_.living->age = since(past_.back().began);
  start_.living->noted = read_time_note(folder_, *start_.living);
}

/// Check that the living attempt can be taken over. With --force, give up one that ran on other
/// nodes.
Result<Unit> RunRecord::check_living(const RunRecordOptions& options, const RunHistory& history) {
  const LivingAttempt& living = *start_.living;
  if (options.new_daemons) {
    start_.living.reset();
    start_.placed = {};
    return Unit{};
  }
  if (options.changed) {
    return Error{Errc::AlreadyExists,
                 fmt::format("attempt {} of {} has not ended: its workers may still be running "
                             "with their original spec",
                             living.id.value, name_),
                 fmt::format("resume it with `train-run resume {}`, stop it with Ctrl-C or "
                             "`train-run stop`, and only then resume it with --set",
                             shell_word(folder_.path()))};
  }
  if (history.living_is_on(nodes_)) return Unit{};
  const std::string text = fmt::format(
      "attempt {} of {} began on other nodes than cluster.nodes "
      "has there now, and its workers may still be running",
      living.id.value, name_);
  if (!options.force) {
    const std::vector<std::string>& its_nodes = *history.nodes_of_living();
    return Error{
        Errc::AlreadyExists, text,
        fmt::format("resume it with its nodes at their places ({}); if they are gone, add "
                    "--force to restart it from its newest checkpoint",
                    its_nodes.empty() ? "none" : fmt::format("{}", fmt::join(its_nodes, ", ")))};
  }
  left_behind_ = text + " there: it is given up";
  start_.living.reset();
  start_.placed = {};
  return Unit{};
}

/// Return the checkpoints that the living attempt's workers have handed over, but that no launcher
/// has committed yet.
Result<std::vector<PendingCheckpoint>> RunRecord::pending_of_living() {
  std::vector<PendingCheckpoint> pending;
  if (!start_.living) return pending;
  TRY(pending, store_->pending());
  std::erase_if(pending, [&](const PendingCheckpoint& one) {
    return one.attempt != start_.living->id || one.generation != start_.living->generation;
  });
  return pending;
}

/// Find the newest committed checkpoint of the living attempt, whether or not the journal mentions
/// it.
void RunRecord::find_resolved() {
  const auto listed = store_->list();
  if (!listed || !start_.living) return;
  for (const ListedCheckpoint& one : *listed) {
    if (one.manifest.has_error() || one.manifest->attempt != start_.living->id ||
        one.manifest->generation != start_.living->generation)
      continue;
    start_.living->resolved_seq = one.manifest->checkpoint_seq.value;
    start_.living->resolved_path = one.path;
  }
}

/// Write the record of the checkpoint to restore, if the last launcher died before it could: only
/// then do the failures before it no longer count, now and later.
Result<Unit> RunRecord::note_found(const Manifest& manifest) {
  const std::string now = now_text();
  const auto record =
      history_->add_found(now, manifest.attempt, manifest.checkpoint_seq.value, *start_.checkpoint);
  if (!record) return Unit{};
  start_.failures = history_->failures();
  return journal_->append({*record}, now);
}

/// Read the checkpoints before the one to restore, in case a node finds that its bytes differ.
/// resume_from_checkpoint is the last resort, and may be gone by now.
Result<Unit> RunRecord::read_older(const std::string& given) {
  if (!given.empty()) {
    if (const auto manifest = read_given_manifest(given))
      start_.older.push_back({0, given, epoch_of(manifest->metrics)});
  }
  TRY(const auto listed, store_->list());
  for (const ListedCheckpoint& one : listed) {
    if (one.manifest && one.number.value < start_.checkpoint->number)
      start_.older.push_back({one.number.value, one.path, epoch_of(one.manifest->metrics)});
  }
  return Unit{};
}

namespace {

/// Check that the checkpoint's files can be reached: they are collected from nodes only if the spec
/// still says so.
Result<Unit> check_reachable(const JobSpec& spec, const Restorable& checkpoint) {
  if (spec.run_config.checkpoint_config.replicas > 0) return Unit{};
  auto here = check_all_here(checkpoint.path, checkpoint.manifest);
  if (here) return here;
  Error error = std::move(here).error();
  error.hint =
      "resume it with run_config.checkpoint_config.replicas set: the files are then collected from "
      "the nodes";
  return error;
}

}  // namespace

Result<Unit> RunRecord::read_start(const JobSpec& spec) {
  if (remote_)
    store_ = std::make_unique<ObjectCheckpointStore>(remote_->files(), remote_->url());
  else
    store_ = std::make_unique<CheckpointStore>(files_, folder_.checkpoints());
  TRY(const auto keep, pending_of_living());
  TRY_VOID(store_->open(generation_, keep));
  find_resolved();
  if (resumed_) {
    TRY(auto choice, store_->open_for_restore());
    warnings_ = std::move(choice.warnings);
    if (!left_behind_.empty()) warnings_.push_back(left_behind_);
    if (choice.checkpoint) {
      TRY_VOID(check_reachable(spec, *choice.checkpoint));
      start_.checkpoint = CheckpointInfo{choice.checkpoint->number.value, choice.checkpoint->path,
                                         epoch_of(choice.checkpoint->manifest.metrics)};
      TRY_VOID(note_found(choice.checkpoint->manifest));
      TRY_VOID(read_older(spec.resume_from_checkpoint));
    }
  }
  TRY(const CheckpointNumber next, store_->next_number());
  start_.last_checkpoint_number = next.value - 1;
  if (!start_.checkpoint && !spec.resume_from_checkpoint.empty()) {
    auto read = read_given_checkpoint(spec.resume_from_checkpoint);
    if (!read)
      return std::move(read).error().with_context("resume_from_checkpoint " +
                                                  spec.resume_from_checkpoint);
  }
  start_.expected_nodes = std::max<std::size_t>(1, nodes_.size());
  const bool has_setup = !spec.setup.empty() && !setup().run_done();
  if (spec.ship.on && start_.living) read_code();
  const bool lacks_code = spec.ship.on && code_.empty();
  start_.sets_up = ((has_setup && !start_.living) || lacks_code) && !start_.ended;
  start_.finds_nodes = spec.cluster.finds_nodes();
  return Unit{};
}

/// Workers that live go on with the code that they began with, and so do those that replace them.
void RunRecord::read_code() {
  auto kept = kept_code(folder_);
  if (kept)
    code_ = std::move(*kept);
  else
    warnings_.push_back(
        "the code that the workers began with is lost: later attempts get that of "
        "working_dir as it is now");
}

Result<Manifest> RunRecord::read_given_manifest(const std::string& location) {
  if (!is_object_url(location)) return read_checkpoint(files_, location);
  TRY(const auto checkpoint, open_object_checkpoint(location, {}));
  return read_checkpoint(*checkpoint.files, checkpoint.folder);
}

/// Read resume_from_checkpoint. Verify every byte of it, except in an object store: there, whoever
/// fetches it verifies it.
Result<Unit> RunRecord::read_given_checkpoint(const std::string& location) {
  TRY(const Manifest manifest, is_object_url(location) ? read_given_manifest(location)
                                                       : verify_checkpoint(files_, location));
  start_.checkpoint = CheckpointInfo{0, location, epoch_of(manifest.metrics)};
  return Unit{};
}

Result<Unit> RunRecord::put_specs(const std::string& spec_text, const std::string& resolved_spec) {
  TRY_VOID(replace_private_file(folder_.spec(), spec_text));
  return replace_private_file(folder_.resolved_spec(), resolved_spec);
}

Result<Unit> RunRecord::sync_specs() {
  for (const std::string& path : {folder_.spec(), folder_.resolved_spec()})
    TRY_VOID(sync_file(path));
  return files_.sync_folder(folder_.path());
}

}  // namespace train
