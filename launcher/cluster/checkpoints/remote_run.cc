#include "launcher/cluster/checkpoints/remote_run.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "launcher/cluster/checkpoints/store_trouble.h"
#include "lib/base/host.h"
#include "lib/base/text_file.h"
#include "lib/base/thread.h"
#include "lib/base/time.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kEvery = 5s;
constexpr auto kBeatWatch = 15s;
constexpr auto kBeatLook = 500ms;
constexpr int kLargeEvery = 12;  // rounds between two copies of a large file
constexpr std::uint64_t kLargeBytes = 1 << 20, kSmallBytesMax = 64 << 20;
constexpr auto kBeatAgeMax = 30s;
constexpr const char* kOwner = "owner.json";
constexpr const char* kUrlNote = ".url";      // in the working folder: the run's URL
constexpr const char* kOwnerNote = ".owner";  // there too: owner.json as of the last fetch
// Also there: the generation of the last launcher that wrote there.
constexpr const char* kOwnedNote = ".owned";
constexpr const char* kStop = "stop";

/// Return whether a file is not uploaded: it is of use only here, or it gets to the store another
/// way.
bool stays_here(const std::string& key) {
  static const std::set<std::string> names{"events.jsonl", "metrics.jsonl", "checkpoints", "code"};
  return key.starts_with('.') || names.contains(key.substr(0, key.find('/')));
}

constexpr std::string_view kOutputTimes = "/output.times";  // in the folder of an attempt

/// Return the place of a file in a round of uploads. Whoever finds output is to find its times too,
/// so they come after it; and with exit.json, everything is there.
int place_in_round(const std::string& key) {
  if (key == "exit.json") return 2;
  return key.ends_with(kOutputTimes) ? 1 : 0;
}

std::string state_folder() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
    return state;
  return home_folder() + "/.local/state";
}

std::string working_folder(const std::string& url) {
  const auto scheme = url.find("://");
  return fmt::format("{}/trainrun/remote/{}/{}", state_folder(), url.substr(0, scheme),
                     url.substr(scheme + 3));
}

void make_private_folders(const fs::path& path) {
  std::error_code ec;
  if (fs::exists(path, ec)) return;
  make_private_folders(path.parent_path());
  ::mkdir(path.c_str(), 0700);
}

// Write a file that only we can read, whatever the umask: nobody else uses a working folder.
Result<Unit> write_text(const std::string& path, std::string_view text) {
  make_private_folders(fs::path(path).parent_path());
  return replace_private_file(path, text);
}

std::string member(const boost::json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->as_string()) : "?";
}

boost::json::object parse(const std::string& text) {
  boost::system::error_code ec;
  auto json = boost::json::parse(text, ec);
  return !ec && json.is_object() ? std::move(json.as_object()) : boost::json::object{};
}

/// Return the key in metrics/, "000003-000017.jsonl": the launcher's generation and the number of
/// its segment.
std::string metrics_key(Generation generation, std::uint64_t number) {
  return fmt::format("metrics/{:06}-{:06}.jsonl", generation.value, number);
}

/// Fetch objects, one after the other, into one file that only we can read. They may be larger than
/// our memory.
Result<Unit> fetch_into(ObjectStore& store, const std::vector<std::string>& keys,
                        const std::string& path) {
  make_private_folders(fs::path(path).parent_path());
  TRY(PrivateReplacement file, PrivateReplacement::begin(path));
  std::string buffer(1 << 20, '\0');
  for (const std::string& key : keys) {
    TRY(auto object, store.open_to_read(key));
    for (;;) {
      TRY(const std::size_t got, object->read(buffer.data(), buffer.size()));
      if (got == 0) break;
      TRY_VOID(file.append(std::string_view(buffer.data(), got)));
    }
  }
  return file.finish();
}

/// Fetch the metrics in the newest launcher's segments: its first segment contains everything
/// before it.
Result<Unit> fetch_metrics(ObjectStore& store, const std::string& path) {
  TRY(const auto objects, store.list("metrics"));
  if (objects.empty()) return Unit{};
  const std::string newest = objects.back().key.substr(0, objects.back().key.rfind('-'));
  std::vector<std::string> keys;
  for (const StoredObject& object : objects) {
    if (object.key.starts_with(newest)) keys.push_back(object.key);
  }
  return fetch_into(store, keys, path);
}

/// Read a note in a folder that may belong to somebody else. Return "" if there is none.
std::string read_note(const RunFolder& folder, const char* name) {
  constexpr std::uint64_t kBytesMax = 64 << 10;
  PosixFileSystem files;
  const auto note = read_small_file(files, join_path(folder.path(), name), kBytesMax);
  return note ? *note : "";
}

}  // namespace

std::string run_location(const std::string& storage_path, const std::string& name) {
  std::string folder = storage_path;
  while (is_object_url(folder) && folder.ends_with('/')) folder.pop_back();
  return join_path(folder, name);
}

std::string run_path(const std::string& storage_path, const std::string& name) {
  const std::string location = run_location(storage_path, name);
  return is_object_url(location) ? working_folder(location) : location;
}

std::string location_of_run(const RunFolder& folder) {
  const std::string url = read_note(folder, kUrlNote);
  return url.empty() ? folder.path() : url;
}

std::string running_elsewhere(const RunFolder& folder) {
  const boost::json::object owner = parse(read_note(folder, kOwnerNote));
  const auto age = std::chrono::system_clock::now() - parse_utc(member(owner, "at"));
  const bool here =
      member(owner, "host") == host_name() && member(owner, "folder") == folder.path();
  if (owner.empty() || age > kBeatAgeMax || here) return "";
  const auto* pid = owner.if_contains("pid");
  return fmt::format("train-run pid {} on {}, since {}",
                     pid != nullptr && pid->is_int64() ? pid->as_int64() : 0, member(owner, "host"),
                     member(owner, "started"));
}

Result<std::unique_ptr<RemoteRun>> RemoteRun::open(const std::string& url) {
  std::unique_ptr<RemoteRun> run(new RemoteRun(url));
  RemoteRun* self = run.get();
  run->warn_ = say_store_trouble();  // until begin()
  TRY(run->store_,
      open_object_store(url, {.on_retry = [self](const std::string& text) { self->warn(text); }}));
  run->files_ = std::make_unique<ObjectFiles>(run->store_, url);
  run->journal_ = std::make_unique<JournalSegments>(*run->store_);
  return run;
}

RemoteRun::~RemoteRun() {
  end(uploads_, uploads_end_);
  end(life_, life_ends_);
}

void RemoteRun::warn(const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (warn_) warn_(text);
}

Result<bool> RemoteRun::exists() {
  TRY(const auto segments, store_->list("journal"));
  return !segments.empty();
}

Result<std::string> RemoteRun::exit_json() {
  auto text = store_->get("exit.json", kSmallBytesMax);
  if (text.has_error() && text.error().code == Errc::NotFound) return std::string();
  return text;
}

Result<Unit> RemoteRun::ask_to_stop() { return store_->put(kStop, "stop\n"); }

Result<Unit> RemoteRun::fetch(const RunFolder& folder) {
  const auto owner = store_->get(kOwner, kSmallBytesMax);
  if (owner.has_error() && owner.error().code != Errc::NotFound) return owner.error();
  TRY_VOID(write_text(join_path(folder.path(), kUrlNote), url_));
  TRY_VOID(write_text(join_path(folder.path(), kOwnerNote), owner.has_error() ? "" : *owner));
  std::string journal;
  {
    const std::lock_guard lock(journal_mutex_);
    TRY(journal, journal_->read());
  }
  TRY_VOID(write_text(folder.journal(), journal));
  const std::string newest = std::to_string(replay_journal(journal).generation().value);
  if (read_note(folder, kOwnedNote) == newest) return Unit{};
  TRY_VOID(fetch_metrics(*store_, folder.metrics()));
  std::vector<std::string> keys{"spec.yaml", "spec.resolved.yaml", "run.json",
                                "exit.json", "progress.csv",       "launcher.log"};
  for (const char* below : {"attempts", "tb"}) {
    TRY(const auto objects, store_->list(below));
    for (const StoredObject& object : objects) keys.push_back(object.key);
  }
  std::stable_partition(keys.begin(), keys.end(),
                        [](const std::string& key) { return !key.ends_with(kOutputTimes); });
  for (const std::string& key : keys) {
    if (check_file_path(key).has_error()) continue;
    const std::string path = join_path(folder.path(), key);
    const auto text = store_->get(key, kLargeBytes);
    if (!text.has_error()) {
      TRY_VOID(write_text(path, *text));
    } else if (text.error().code == Errc::ResourceExhausted) {
      TRY_VOID(fetch_into(*store_, {key}, path));
    } else if (text.error().code == Errc::NotFound) {
      std::error_code ec;
      fs::remove(path, ec);  // such as an exit.json from before the run was resumed
    } else {
      return text.error();
    }
  }
  return Unit{};
}

Result<Unit> RemoteRun::claim(const LockHolder& self, const RunFolder& folder, bool force,
                              const std::function<void(const std::string&)>& say) {
  holder_ = boost::json::serialize(boost::json::object{{"host", self.host},
                                                       {"pid", self.pid},
                                                       {"started", self.started},
                                                       {"folder", folder.path()}});
  TRY_VOID(write_text(join_path(folder.path(), kUrlNote), url_));
  TRY_VOID(write_text(join_path(folder.path(), kOwnerNote), ""));
  return force ? Result<Unit>(Unit{}) : await_owner(self, folder, say);
}

Result<Unit> RemoteRun::drop_stop_request() { return store_->remove(kStop); }

/// Watch until it is certain that no launcher on another machine is alive.
Result<Unit> RemoteRun::await_owner(const LockHolder& self, const RunFolder& folder,
                                    const std::function<void(const std::string&)>& say) {
  const auto first = store_->get(kOwner, kSmallBytesMax);
  if (first.has_error() && first.error().code == Errc::NotFound) return Unit{};
  if (first.has_error()) return first.error();
  const boost::json::object owner = parse(*first);
  // The owner used this very folder, whose lock we hold: that launcher is dead.
  if (member(owner, "host") == self.host && member(owner, "folder") == folder.path()) return Unit{};
  const std::string named =
      fmt::format("a train-run on {} (since {})", member(owner, "host"), member(owner, "started"));
  say(fmt::format("{} owned this run: checking for {} s whether it is still alive", named,
                  std::chrono::duration_cast<std::chrono::seconds>(kBeatWatch).count()));
  for (auto waited = 0ms; waited < kBeatWatch; waited += kBeatLook) {
    std::this_thread::sleep_for(kBeatLook);
    const auto now = store_->get(kOwner, kSmallBytesMax);
    if (now.has_error() && now.error().code == Errc::NotFound) return Unit{};
    if (now.has_error()) return now.error();
    if (*now != *first)
      return Error{Errc::AlreadyExists, fmt::format("{} is held by {}", url_, named),
                   "stop it with train-run stop, or take it over with --force"};
  }
  return Unit{};
}

Result<Unit> RemoteRun::note_generation(const RunFolder& folder, Generation generation) {
  return write_text(join_path(folder.path(), kOwnedNote), std::to_string(generation.value));
}

JournalCopy RemoteRun::journal_copy() {
  return [this](std::string_view lines, const std::function<Result<std::string>()>& whole) {
    const std::lock_guard lock(journal_mutex_);
    return journal_->append(lines, whole);
  };
}

Result<Unit> RemoteRun::check_owner() {
  const std::lock_guard lock(journal_mutex_);
  return journal_->check();
}

Result<Unit> RemoteRun::leave_marker(Generation generation, const std::string& text) {
  const std::string key = fmt::format("probe-{}", generation.value);
  TRY_VOID(store_->put(key, text));
  // Only put_new() keeps a second launcher from overwriting what the first one has written.
  const auto again = store_->put_new(key, text + "again");
  if (again.has_error())
    return again.error().code == Errc::AlreadyExists ? Result<Unit>(Unit{}) : again.error();
  return Error{Errc::InvalidArgument,
               fmt::format("'{}' lets a conditional write replace an object that exists", url_),
               "use a server that honours `If-None-Match: *`"};
}

void RemoteRun::begin(const RunFolder& folder, Generation generation,
                      std::function<void(const std::string&)> warn,
                      std::function<void(const Error&)> fenced) {
  folder_ = folder.path();
  generation_ = generation;
  {
    const std::lock_guard lock(mutex_);
    warn_ = std::move(warn);
    fenced_ = std::move(fenced);
  }
  life_ = start_thread("trainrun-life", [this] { show_life(); });
  uploads_ = start_thread("trainrun-upload", [this] { upload(); });
}

void RemoteRun::show_life() {
  do {
    if (const auto ours = check_owner(); ours.has_error() && ours.error().code == Errc::Fenced) {
      note_owner(Owner::Another);
      return fenced_(ours.error());
    }
    if (const auto said = beat(); said.has_error()) warn(said.error().describe());
    note_owner(Owner::We);
  } while (pause(life_ends_));
}

void RemoteRun::upload() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return owner_ != Owner::Unknown || uploads_end_; });
  }
  do {
    if (const auto put = put_new_files(false); put.has_error())
      warn("could not upload the run's new files: " + put.error().describe());
  } while (pause(uploads_end_));
}

void RemoteRun::note_owner(Owner owner) {
  const std::lock_guard lock(mutex_);
  owner_ = owner;
  changed_.notify_all();
}

/// Wait for a thread's next round. Return false if there is none.
bool RemoteRun::pause(const bool& ends) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, kEvery, [&] { return ends; });
}

void RemoteRun::end(std::thread& thread, bool& ends) {
  {
    const std::lock_guard lock(mutex_);
    ends = true;
    changed_.notify_all();
  }
  if (thread.joinable()) thread.join();
}

/// Return whether the next file may be uploaded. Another launcher's files are not replaced; unless
/// `all` have to be uploaded, those that are left when the run ends can wait.
bool RemoteRun::may_upload(bool all) {
  const std::lock_guard lock(mutex_);
  return owner_ != Owner::Another && (all || !uploads_end_);
}

Result<Unit> RemoteRun::beat() {
  boost::json::object owner = parse(holder_);
  owner["beat"] = ++beats_;
  owner["at"] = format_utc(std::chrono::system_clock::now());
  TRY_VOID(store_->put(kOwner, boost::json::serialize(owner) + "\n"));
  const auto stop = store_->get(kStop, kSmallBytesMax);
  if (stop.has_error()) {
    if (stop.error().code == Errc::NotFound) return Unit{};
    return stop.error();
  }
  TRY_VOID(write_text(RunFolder(folder_).stop_request(), "stop\n"));
  return store_->remove(kStop);
}

Result<Unit> RemoteRun::put_file(const std::string& path, const std::string& key) {
  PosixFileSystem files;
  TRY(auto source, files.open_to_read(path));
  TRY(auto target, store_->create(key));
  std::string buffer(1 << 20, '\0');
  for (;;) {
    TRY(const std::size_t got, source->read(buffer.data(), buffer.size()));
    if (got == 0) return target->close();
    TRY_VOID(target->write(std::string_view(buffer.data(), got)));
  }
}

/// Put the new whole lines as the next segment. Our first segment contains everything, so it
/// replaces the segments of earlier launchers. That is why nothing is put if the file cannot be
/// read to its end.
Result<Unit> RemoteRun::put_metrics() {
  auto read = read_text_from(join_path(folder_, "metrics.jsonl"), metrics_bytes_);
  if (!read && read.error().code == Errc::NotFound) return Unit{};
  TRY(std::string lines, std::move(read));
  lines.resize(lines.rfind('\n') + 1);  // npos + 1 is 0
  if (lines.empty()) return Unit{};
  const std::string key = metrics_key(generation_, metrics_segments_ + 1);
  std::vector<StoredObject> before;
  if (metrics_segments_ == 0) {
    TRY(before, store_->list("metrics"));
    // An earlier try may have arrived although its answer was lost.
    std::erase_if(before, [&](const StoredObject& one) { return one.key == key; });
  }
  TRY_VOID(store_->put(key, lines));
  ++metrics_segments_;
  metrics_bytes_ += lines.size();
  for (const StoredObject& old : before) (void)store_->remove(old.key);
  return Unit{};
}

Result<Unit> RemoteRun::put_new_files(bool all) {
  const bool large_too = all || rounds_++ % kLargeEvery == 0;
  if (!may_upload(all)) return Unit{};
  TRY_VOID(put_metrics());
  std::error_code ec;
  std::vector<std::string> keys;
  for (auto it = fs::recursive_directory_iterator(folder_, ec);
       !ec && it != fs::recursive_directory_iterator(); it.increment(ec)) {
    const std::string key = it->path().lexically_relative(folder_).string();
    std::error_code gone;
    if (stays_here(key)) {
      it.disable_recursion_pending();
    } else if (it->is_regular_file(gone)) {
      keys.push_back(key);
    }
  }
  std::sort(keys.begin(), keys.end(), [](const std::string& a, const std::string& b) {
    return std::pair(place_in_round(a), a) < std::pair(place_in_round(b), b);
  });
  for (const std::string& key : keys) {
    if (!may_upload(all)) return Unit{};
    const std::string path = join_path(folder_, key);
    const std::uintmax_t bytes = fs::file_size(path, ec);
    if (ec || (bytes > kLargeBytes && !large_too && !times_due_.contains(key))) continue;
    const std::string state =
        fmt::format("{} {}", fs::last_write_time(path, ec).time_since_epoch().count(), bytes);
    if (ec || put_[key] == state) continue;
    TRY_VOID(put_file(path, key));
    put_[key] = state;
    times_due_.erase(key);
    if (const auto end = key.find("/ranks/"); end != key.npos)
      times_due_.insert(key.substr(0, end) + std::string(kOutputTimes));
  }
  return Unit{};
}

Result<Unit> RemoteRun::finish() {
  end(uploads_, uploads_end_);
  const auto put = put_new_files(true);
  end(life_, life_ends_);
  if (owner_ == Owner::Another) return Unit{};
  TRY_VOID(put);
  (void)store_->remove(fmt::format("probe-{}", generation_.value));
  return store_->remove(kOwner);
}

}  // namespace train
