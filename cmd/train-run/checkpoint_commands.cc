// checkpoint list, verify, export, pull: show and copy the kept checkpoints of a run. They only
// read. If the run continues meanwhile, it may remove a checkpoint under them, which is not an
// error.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <deque>
#include <filesystem>
#include <future>

#include "cmd/train-run/commands.h"
#include "launcher/cluster/checkpoints/checkpoint_rows.h"
#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/checkpoints/run_checkpoints.h"
#include "launcher/spec/job_spec_parser.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"
#include "lib/base/size_text.h"
#include "lib/storage/checkpoint_export.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kVerifyThreads = 4;  // to keep a disk or a file server busy, not the cores
constexpr auto kDrawAfter = std::chrono::seconds(1);
constexpr auto kDrawEvery = std::chrono::milliseconds(100);

int failed(const Error& error) {
  print_error(error);
  return exit_code_of(error);
}

/// Where checkpoints are: a run's folder or URL, a folder that pull wrote, or the folder of a
/// single checkpoint that export wrote.
struct Location {
  std::string path;
  std::string single;         // its folder, or empty
  std::string resolved_spec;  // or empty
  RunCheckpoints checkpoints;
};

Result<Location> location_of(const RunReference& reference) {
  static PosixFileSystem files;
  Location location;
  const auto path = path_of(reference);
  if (path) {
    location.path = location_of_run(RunFolder(*path));
    location.resolved_spec = RunFolder(*path).resolved_spec();
  } else {
    std::error_code ec;
    location.path = fs::absolute(reference.run, ec).lexically_normal();
    if (fs::exists(join_path(location.path, kManifestName), ec))
      location.single = location.path;
    else if (!fs::is_directory(RunFolder(location.path).checkpoints(), ec))
      return path.error();
  }
  TRY(location.checkpoints, open_checkpoints(location.path, files));
  return location;
}

/// Return how the run's spec scores its checkpoints. A copy has no spec: its newest checkpoint is
/// the best.
CheckpointConfig config_of(const Location& location) {
  if (location.resolved_spec.empty()) return {};
  SpecSource source;
  source.path = location.resolved_spec;
  auto parsed = parse_job_spec(source);
  if (const auto* spec = std::get_if<ParsedSpec>(&parsed))
    return spec->spec.run_config.checkpoint_config;
  print_err("train-run: warning: cannot read {}: treating the newest checkpoint as the best\n",
            location.resolved_spec);
  return {};
}

Result<std::vector<ListedCheckpoint>> list_of(const Location& location) {
  if (location.single.empty()) return location.checkpoints.store->list();
  auto manifest = read_checkpoint(*location.checkpoints.files, location.single);
  const CheckpointNumber number = manifest ? manifest->checkpoint : CheckpointNumber{};
  std::vector<ListedCheckpoint> listed;
  listed.push_back({number, location.single, std::move(manifest)});
  return listed;
}

/// Return the number in "checkpoint_000012" or "12".
std::optional<CheckpointNumber> number_of(const std::string& which) {
  if (const auto named = parse_checkpoint_name(which)) return named;
  CheckpointNumber number;
  const auto [end, error] =
      std::from_chars(which.data(), which.data() + which.size(), number.value);
  if (error != std::errc{} || end != which.data() + which.size() || number.value == 0)
    return std::nullopt;
  return number;
}

bool is_which(const std::string& which) {
  if (which == "latest" || which == "best" || number_of(which)) return true;
  print_error({Errc::InvalidArgument, fmt::format("'{}' names no checkpoint", escape_name(which)),
               "give its name, its number, latest or best"});
  return false;
}

Result<ListedCheckpoint> pick(const Location& location, const RunReference& reference,
                              const std::string& which) {
  const std::string hint =
      fmt::format("train-run checkpoint list {} shows those that are there", reference.run);
  if (const auto number = number_of(which)) {
    if (!location.single.empty()) {
      TRY(auto listed, list_of(location));
      if (listed.front().manifest.has_error() || listed.front().number == *number)
        return std::move(listed.front());
      return Error{Errc::NotFound,
                   fmt::format("{} is {}", location.single, checkpoint_name(listed.front().number)),
                   hint};
    }
    auto found = location.checkpoints.store->find(*number);
    if (!found && found.error().code == Errc::NotFound)
      return Error{Errc::NotFound, found.error().message, hint};
    return found;
  }
  TRY(auto listed, list_of(location));
  const CheckpointTable table =
      checkpoint_table(listed, which == "best" ? config_of(location) : CheckpointConfig{});
  for (std::size_t i = 0; i < listed.size(); ++i) {
    if (which == "best" ? table.rows[i].best : table.rows[i].latest) return std::move(listed[i]);
  }
  return Error{Errc::NotFound, fmt::format("{} has no checkpoint that can be used", location.path),
               hint};
}

/// Shows on stderr how many bytes of how many have been read, if it is a terminal and it takes
/// long.
class ByteProgress {
 public:
  ByteProgress(std::string doing, std::uint64_t total)
      : doing_(std::move(doing)), total_(total), shown_(::isatty(STDERR_FILENO) != 0) {}
  ~ByteProgress() { clear(); }
  ByteProgress(const ByteProgress&) = delete;
  ByteProgress& operator=(const ByteProgress&) = delete;

  void add(std::uint64_t bytes) { done_ += bytes; }  // from any thread
  void draw() {
    const auto now = std::chrono::steady_clock::now();
    if (!shown_ || now < next_) return;
    next_ = now + kDrawEvery;
    drawn_ = true;
    print_err("\r\033[K{}: {} of {}", doing_, size_text(done_), size_text(total_));
    std::fflush(stderr);
  }
  /// Clear the display before a line is printed.
  void clear() {
    if (!drawn_) return;
    drawn_ = false;
    print_err("\r\033[K");
    std::fflush(stderr);
  }

 private:
  const std::string doing_;
  const std::uint64_t total_;
  const bool shown_;
  bool drawn_ = false;
  std::atomic<std::uint64_t> done_ = 0;
  std::chrono::steady_clock::time_point next_ = std::chrono::steady_clock::now() + kDrawAfter;
};

/// Lets Ctrl-C end a copy gracefully, removing what is half written.
class Interrupts {
 public:
  Interrupts() {
    ::sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, nullptr);
  }
  bool asked() const {
    const timespec at_once{};
    return ::sigtimedwait(&signals_, nullptr, &at_once) > 0;
  }

 private:
  sigset_t signals_{};
};

OnBytes copying(ByteProgress& progress, const Interrupts& interrupts) {
  return [&](std::uint64_t bytes) -> Result<Unit> {
    progress.add(bytes);
    progress.draw();
    if (interrupts.asked()) return Error{Errc::Cancelled, "interrupted: no partial copy is left"};
    return Unit{};
  };
}

std::uint64_t bytes_of(const std::vector<ListedCheckpoint>& listed) {
  std::uint64_t bytes = 0;
  for (const ListedCheckpoint& one : listed)
    bytes += one.manifest ? one.manifest->total_bytes() : 0;
  return bytes;
}

std::string name_of(const ListedCheckpoint& one) { return fs::path(one.path).filename().string(); }

std::string amount_of(const Manifest& manifest) {
  return fmt::format("{} {}, {}", manifest.files.size(),
                     manifest.files.size() == 1 ? "file" : "files",
                     size_text(manifest.total_bytes()));
}

struct Verified {
  // A checkpoint that is gone counts as none of these.
  std::size_t intact = 0, broken = 0, elsewhere = 0;
};

/// Verify the checkpoints, and print a line for each, in order.
Verified verify_all(FileSystem& files, const std::vector<ListedCheckpoint>& listed) {
  ByteProgress progress("verifying", bytes_of(listed));
  const auto verify = [&](const ListedCheckpoint& one) -> Result<Unit> {
    if (!one.manifest) return one.manifest.error();
    return verify_files(files, one.path, *one.manifest, [&](std::uint64_t bytes) -> Result<Unit> {
      progress.add(bytes);
      return Unit{};
    });
  };
  Verified verified;
  std::deque<std::future<Result<Unit>>> running;
  std::size_t begun = 0;
  for (const ListedCheckpoint& one : listed) {
    for (; begun < listed.size() && running.size() < kVerifyThreads; ++begun)
      running.push_back(std::async(std::launch::async, verify, std::cref(listed[begun])));
    while (running.front().wait_for(kDrawEvery) != std::future_status::ready) progress.draw();
    const Result<Unit> result = running.front().get();
    running.pop_front();
    if (!result && is_gone(files, one.path)) continue;
    progress.clear();
    if (const auto nodes = one.manifest ? one.manifest->nodes() : std::vector<std::string>();
        result && !nodes.empty()) {
      ++verified.elsewhere;
      print_out("{}: on {} ({}): not read\n", name_of(one),
                fmt::format("{}", fmt::join(nodes, ", ")), amount_of(*one.manifest));
    } else if (result) {
      ++verified.intact;
      print_out("{}: ok ({})\n", name_of(one), amount_of(*one.manifest));
    } else {
      ++verified.broken;
      print_out("{}: not intact: {}\n", name_of(one), result.error().message);
    }
    flush_out();
  }
  return verified;
}

/// Return the target as the copy's owner sees it: absolute, without a slash at the end.
Result<std::string> target_of(const std::string& dir) {
  std::error_code ec;
  std::string target = fs::absolute(dir, ec).lexically_normal();
  while (target.size() > 1 && target.ends_with('/')) target.pop_back();
  if (fs::equivalent(target, fs::current_path(ec), ec))
    return Error{Errc::AlreadyExists, fmt::format("'{}' is the current folder", target),
                 "name a folder in it"};
  return target;
}

}  // namespace

int checkpoint_list_command(const RunReference& reference, bool json) {
  const auto location = location_of(reference);
  if (!location) return failed(location.error());
  const auto listed = list_of(*location);
  if (!listed) return failed(listed.error());
  const CheckpointTable table = checkpoint_table(*listed, config_of(*location));
  if (json)
    print_out("{}", Lines{checkpoints_json(table)});
  else if (table.rows.empty())
    print_out("{} has no checkpoints\n", location->path);
  else
    print_out("{}", Lines{checkpoints_text(table)});
  return 0;
}

int checkpoint_verify_command(const RunReference& reference, const CheckpointCommand& options) {
  const bool all = options.which.empty();
  if (!all && !is_which(options.which)) return exit_code::kUsage;
  const auto location = location_of(reference);
  if (!location) return failed(location.error());
  std::vector<ListedCheckpoint> listed;
  if (all) {
    auto found = list_of(*location);
    if (!found) return failed(found.error());
    listed = std::move(*found);
  } else {
    auto one = pick(*location, reference, options.which);
    if (!one) return failed(one.error());
    listed.push_back(std::move(*one));
  }
  const Verified verified = verify_all(*location->checkpoints.files, listed);
  if (verified.intact + verified.broken + verified.elsewhere == 0) {
    if (!all)
      return failed({Errc::NotFound, fmt::format("'{}' was removed meanwhile", listed[0].path)});
    return failed({Errc::NotFound, fmt::format("{} has no checkpoints", location->path)});
  }
  if (verified.intact + verified.broken > 1)
    print_out("{} of {} checkpoints are intact\n", verified.intact,
              verified.intact + verified.broken);
  return verified.broken == 0 ? 0 : exit_code::kFailed;
}

int checkpoint_export_command(const RunReference& reference, const CheckpointCommand& options) {
  if (!is_which(options.which)) return exit_code::kUsage;
  const auto location = location_of(reference);
  if (!location) return failed(location.error());
  const auto one = pick(*location, reference, options.which);
  if (!one) return failed(one.error());
  if (!one->manifest) return failed(one->manifest.error());
  const auto target = target_of(options.dir);
  if (!target) return failed(target.error());
  PosixFileSystem files;
  const Interrupts interrupts;
  ByteProgress progress("copying", one->manifest->total_bytes());
  const auto copied = export_checkpoint(*location->checkpoints.files, one->path, files, *target,
                                        copying(progress, interrupts));
  progress.clear();
  if (!copied) {
    Error error = copied.error();
    if (error.code == Errc::Corrupt)
      error.hint =
          fmt::format("train-run checkpoint verify {} says which are intact", reference.run);
    return failed(error);
  }
  print_out("copied {} ({}) to {}\n", name_of(*one), amount_of(*copied), *target);
  return 0;
}

int checkpoint_pull_command(const RunReference& reference, const CheckpointCommand& options) {
  const auto location = location_of(reference);
  if (!location) return failed(location.error());
  auto listed = list_of(*location);
  if (!listed) return failed(listed.error());
  std::reverse(listed->begin(), listed->end());
  if (options.last > 0 && listed->size() > static_cast<std::size_t>(options.last))
    listed->erase(listed->begin() + options.last, listed->end());
  std::error_code ec;
  const std::string target =
      RunFolder(fs::absolute(options.dir, ec).lexically_normal()).checkpoints();
  PosixFileSystem files;
  const Interrupts interrupts;
  ByteProgress progress("copying", bytes_of(*listed));
  std::size_t copied = 0, were_there = 0;
  int code = 0;
  for (const ListedCheckpoint& one : *listed) {
    const Result<Pulled> pulled =
        one.manifest ? pull_checkpoint(*location->checkpoints.files, one.path, files,
                                       join_path(target, checkpoint_name(one.number)),
                                       copying(progress, interrupts))
                     : one.manifest.error();
    if (pulled) {
      ++(*pulled == Pulled::Copied ? copied : were_there);
      if (*pulled == Pulled::WasThere) progress.add(one.manifest->total_bytes());
      continue;
    }
    const Error& error = pulled.error();
    if (is_gone(*location->checkpoints.files, one.path)) continue;
    progress.clear();
    code = failed(error);
    if (code != exit_code::kTaken && code != exit_code::kDamaged)
      break;  // the next one would fail as well
  }
  progress.clear();
  print_out("{} copied to {}, {} there already\n", copied, target, were_there);
  return code;
}

}  // namespace train
