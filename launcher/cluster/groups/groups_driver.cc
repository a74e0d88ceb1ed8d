#include "launcher/cluster/groups/groups_driver.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <chrono>
#include <map>

#include "launcher/cluster/children/child_folder.h"
#include "launcher/cluster/children/child_run.h"
#include "launcher/cluster/children/shared_daemon.h"
#include "launcher/cluster/children/stop_wishes.h"
#include "launcher/cluster/groups/group_command.h"
#include "launcher/cluster/groups/group_events.h"
#include "launcher/cluster/groups/groups_folder.h"
#include "launcher/cluster/groups/groups_screen.h"
#include "launcher/cluster/groups/lighthouse.h"
#include "launcher/core/groups/group_controller.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/open_files.h"
#include "lib/base/overloaded.h"
#include "lib/base/print.h"
#include "lib/observe/append_file.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

constexpr Duration kLookEvery = milliseconds(200);   // at the folder, and at the traind
constexpr Duration kLookAtStart = milliseconds(50);  // whether the lighthouse is up
constexpr std::uint64_t kSpecBytesMax = 16u << 20;
constexpr std::size_t kPiecesMax = 4;  // of 64 KiB

std::string wall_time() { return format_utc(std::chrono::system_clock::now()); }
TimePoint now() { return std::chrono::steady_clock::now(); }

GroupsSpec groups_spec(const GroupsOptions& options, std::vector<int> finished) {
  const BackendConfig& config = options.spec.backend_config;
  return {.groups = config.replica_groups,
          .min_groups = config.min_replicas,
          .lighthouse = !options.lighthouse.empty(),
          .endless = options.spec.run_config.failure_config.max_failures == kUnlimited,
          .finished = std::move(finished)};
}

class GroupsDriver {
 public:
  explicit GroupsDriver(const GroupsOptions& options)
      : options_(options), folder_(options.folder), screen_(options.output) {}

  Result<int> run();

 private:
  struct Live {
    ChildRun process;
    FileDescriptor output;                // group 0's
    std::optional<TimePoint> began = {};  // its attempt's workers
    std::string cause = {};
  };

  Result<Unit> open();
  Result<bool> wait_for_earlier();
  Result<Unit> open_lighthouse();
  Result<int> follow();
  void perform(const GroupsActions& actions);
  bool knows(int group, const std::string& url);
  Result<Live> launch(int group);
  void wait();
  void look_at_lighthouse();
  void look_at(int group, Live& live);
  void take_signals();
  void take_stop_request();
  void look_around();
  void ask_to_stop(int code, std::string cause = {});
  void write_end();

  const GroupsOptions& options_;
  const GroupsFolder folder_;
  PosixFileSystem files_;
  GroupsScreen screen_;
  const LockHolder self_{host_name(), ::getpid(), wall_time()};
  StopWishes stop_{folder_.stop_request(), self_};
  std::optional<RunLock> lock_;
  std::optional<GroupsNote> before_;  // of an earlier train-run
  std::optional<SharedDaemon> daemon_;
  std::optional<Lighthouse> lighthouse_;
  std::optional<std::string> not_started_;  // why the lighthouse could not be
  std::string url_;                         // "": the user has a lighthouse
  std::optional<GroupController> groups_;
  std::map<int, Live> live_;
  std::map<int, std::string> not_launched_;  // and why
  std::optional<EndGroups> end_;
  std::optional<int> stop_code_;  // we were told to stop before there was anything to stop
  TimePoint looked_ = {};
};

// ---- opening

Result<Unit> GroupsDriver::open() {
  TRY(auto lock, RunLock::acquire(files_, folder_.lock(), self_));
  lock_.emplace(std::move(lock));
  before_ = read_note(folder_);
  if (const auto removed = files_.remove_file(folder_.exit_json());
      removed.has_error() && removed.error().code != Errc::NotFound)
    return removed.error();
  return make_folders(files_, folder_.groups());
}

/// Wait until no train-run of an earlier driver has a group any more, which it is stopping. Return
/// false if we were told to stop meanwhile.
Result<bool> GroupsDriver::wait_for_earlier() {
  bool said = false;
  for (int group = 0; group < options_.spec.backend_config.replica_groups;) {
    TRY(const bool held, is_held(RunFolder(folder_.group(group)).lock()));
    if (!held) {
      ++group;
      continue;
    }
    if (!std::exchange(said, true))
      screen_.warn(
          fmt::format("waiting for group {}, which an earlier train-run is stopping", group));
    pollfd polled{stop_.fd(), POLLIN, 0};
    ::poll(&polled, 1, 100);
    take_signals();
    take_stop_request();
    if (stop_code_) return false;
  }
  return true;
}

Result<Unit> GroupsDriver::open_lighthouse() {
  const BackendConfig& config = options_.spec.backend_config;
  if (!options_.lighthouse.empty()) {
    // A later one is at the same address, if it can be: workers that were left behind know it.
    const std::string before = before_ ? before_->lighthouse : "";
    const std::size_t colon = before.rfind(':');
    const int port = colon == std::string::npos ? 0 : std::atoi(before.c_str() + colon + 1);
    lighthouse_.emplace(Lighthouse::Options{
        .command = options_.lighthouse,
        .min_groups = config.min_replicas,
        .folder = options_.spec.working_dir,
        .environment = options_.environment,
        .host = options_.lighthouse_host,
        .port = static_cast<std::uint16_t>(port > 0 && port <= 65535 ? port : 0),
        .log = folder_.lighthouse_log()});
    TRY_VOID(lighthouse_->open());
    url_ = lighthouse_->url();
  }
  return write_note(
      folder_,
      {.groups = config.replica_groups, .min_groups = config.min_replicas, .lighthouse = url_});
}

// ---- actions

/// Return whether the group's run, which has begun, has this address of the lighthouse in its spec.
bool GroupsDriver::knows(int group, const std::string& url) {
  const auto spec =
      read_small_file(files_, RunFolder(folder_.group(group)).resolved_spec(), kSpecBytesMax);
  if (spec.has_error()) return true;  // then nothing can be done about it
  for (std::size_t at = spec->find(url); at != std::string::npos; at = spec->find(url, at + 1)) {
    const char next = at + url.size() < spec->size() ? (*spec)[at + url.size()] : '\n';
    if (next < '0' || next > '9') return true;  // else a longer port
  }
  return false;
}

Result<GroupsDriver::Live> GroupsDriver::launch(int group) {
  const bool begun = look_into_child(files_, RunFolder(folder_.group(group))).begun;
  const auto words = group_command(options_, folder_,
                                   {.group = group,
                                    .resume = begun,
                                    .lighthouse = url_,
                                    .moved = begun && !knows(group, url_),
                                    .daemon = daemon_ ? daemon_->runtime_dir() : ""});
  FileDescriptor output, theirs;
  if (group == 0 && options_.output != OutputMode::Json) {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
    output.reset(pipe[0]);
    theirs.reset(pipe[1]);
    ::fcntl(output.get(), F_SETFL, O_NONBLOCK);
  }
  TRY(auto process, ChildRun::start(words, options_.variables, theirs.get()));
  if (output.get() >= 0) process.pass_errors_on();
  return Live{.process = std::move(process), .output = std::move(output)};
}

void GroupsDriver::perform(const GroupsActions& actions) {
  for (const GroupsAction& action : actions)
    std::visit(Overloaded{[&](const StartLighthouse&) {
                            if (const auto started = lighthouse_->start(); !started)
                              not_started_ = started.error().message;
                          },
                          [&](const KillLighthouse&) { lighthouse_->kill(); },
                          [&](const StartReplicaGroup& start) {
                            auto live = launch(start.group);
                            if (live)
                              live_.insert_or_assign(start.group, std::move(*live));
                            else
                              not_launched_[start.group] = live.error().describe();
                          },
                          [&](const StopReplicaGroup& stop) {
                            const auto live = live_.find(stop.group);
                            if (live != live_.end()) live->second.process.send_signal(SIGTERM);
                          },
                          [&](const TellGroups& news) { screen_.tell(news); },
                          [&](const EndGroups& end) { end_ = end; }},
               action);
}

// ---- events

void GroupsDriver::look_at_lighthouse() {
  if (!lighthouse_) return;
  if (const auto why = std::exchange(not_started_, std::nullopt))
    perform(groups_->handle(LighthouseEnded{*why}, now()));
  else if (const auto how = lighthouse_->ended())
    perform(groups_->handle(LighthouseEnded{*how}, now()));
  if (lighthouse_->came_up()) perform(groups_->handle(LighthouseReady{}, now()));
}

void GroupsDriver::look_at(int group, Live& live) {
  const auto end = live.process.ended();  // first: what it has told is there then
  std::array<char, 64u << 10> piece{};
  // It may write faster than our terminal takes it: we have to look at the rest as well.
  for (std::size_t pieces = 0; live.output.get() >= 0 && (end || pieces < kPiecesMax); ++pieces) {
    const ssize_t count = ::read(live.output.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) live.output.reset();
    if (count <= 0) break;
    screen_.pass_on({piece.data(), static_cast<std::size_t>(count)});
  }
  for (const boost::json::object& told : live.process.take_events()) {
    const auto event = group_event(told);
    if (!event) continue;
    std::visit(
        Overloaded{[&](const AttemptBegan&) { live.began = now(); },
                   [&](const AttemptFailed& failed) {
                     perform(groups_->handle(
                         GroupAttemptFailed{.group = group,
                                            .lived = live.began ? now() - *live.began : Duration{},
                                            .by_itself = failed.by_itself,
                                            .code = failed.code,
                                            .cause = failed.cause},
                         now()));
                   },
                   [&](const GroupRunEnded& ended) { live.cause = ended.cause; }},
        *event);
  }
  const std::string said = live.process.said();
  if (!end) return;
  const GroupEnded ended{.group = group,
                         .code = end->code,
                         .killed = end->killed,
                         .cause = live.cause.empty() ? said : live.cause};
  live_.erase(group);  // `live` is gone from here on
  perform(groups_->handle(ended, now()));
}

void GroupsDriver::ask_to_stop(int code, std::string cause) {
  if (groups_)
    perform(groups_->handle(GroupsStopAsked{code, std::move(cause)}, now()));
  else
    stop_code_ = code;
}

void GroupsDriver::take_signals() {
  while (const auto code = stop_.by_signal()) ask_to_stop(*code);
}

void GroupsDriver::take_stop_request() {
  if (const auto code = stop_.by_file()) ask_to_stop(*code);
}

void GroupsDriver::look_around() {
  if (now() - looked_ < kLookEvery) return;
  looked_ = now();
  take_stop_request();
  if (!daemon_ || groups_->stopping()) return;
  if (const auto there = daemon_->look(); !there) {
    screen_.warn(there.error().describe());
    ask_to_stop(exit_code::kUnavailable, there.error().message);
  }
}

void GroupsDriver::wait() {
  if (end_ || !not_launched_.empty() || not_started_) return;
  std::vector<pollfd> polled{{stop_.fd(), POLLIN, 0}};
  for (const auto& [group, live] : live_)
    for (const int fd :
         {live.process.socket(), live.process.errors(), live.process.process(), live.output.get()})
      if (fd >= 0) polled.push_back({fd, POLLIN, 0});
  Duration most = kLookEvery;
  if (lighthouse_) {
    lighthouse_->add_to(polled);
    if (lighthouse_->is_coming_up()) most = kLookAtStart;
  }
  if (const auto next = groups_->next_deadline())
    most = std::clamp(std::chrono::duration_cast<Duration>(*next - now()), Duration{}, most);
  ::poll(polled.data(), polled.size(),
         static_cast<int>(std::chrono::ceil<milliseconds>(most).count()));
}

// ----

void GroupsDriver::write_end() {
  boost::json::object end{{"code", end_->code}, {"cause", end_->cause}};
  if (end_->group >= 0) end["group"] = end_->group;
  if (const auto written = replace_file(folder_.exit_json(), boost::json::serialize(end) + "\n");
      !written)
    screen_.warn(written.error().describe());
}

Result<int> GroupsDriver::follow() {
  std::vector<int> finished;
  const int groups = options_.spec.backend_config.replica_groups;
  for (int group = 0; group < groups; ++group)
    if (look_into_child(files_, RunFolder(folder_.group(group))).code == exit_code::kOk)
      finished.push_back(group);
  screen_.began(options_.name, folder_.path(), groups, groups - static_cast<int>(finished.size()),
                url_);
  groups_.emplace(groups_spec(options_, std::move(finished)));
  perform(groups_->begin(now()));
  while (!end_) {
    wait();
    take_signals();
    look_around();
    look_at_lighthouse();
    for (const auto& [group, why] : std::exchange(not_launched_, {}))
      perform(
          groups_->handle(GroupEnded{.group = group, .code = exit_code::kIo, .cause = why}, now()));
    std::vector<int> running;
    for (const auto& [group, live] : live_) running.push_back(group);
    for (const int group : running)
      if (const auto live = live_.find(group); live != live_.end()) look_at(group, live->second);
    perform(groups_->tick(now()));
  }
  return end_->code;
}

Result<int> GroupsDriver::run() {
  TRY_VOID(open());
  TRY(const bool free, wait_for_earlier());
  if (!free) return *stop_code_;
  TRY_VOID(open_lighthouse());
  if (options_.own_daemon) TRY_VOID(daemon_.emplace(folder_.daemon_note()).open());
  TRY(const int code, follow());
  if (lighthouse_) lighthouse_->end();
  if (daemon_) daemon_->leave();
  write_end();
  screen_.ended(*end_, folder_.path(), code != exit_code::kOk);
  return code;
}

}  // namespace

int run_groups(const GroupsOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  raise_open_files();  // a group has three
  GroupsDriver driver(options);
  const auto code = driver.run();
  if (code) return *code;
  print_error("train-run", code.error());
  switch (code.error().code) {
    case Errc::AlreadyExists:
      return exit_code::kTaken;
    case Errc::Unavailable:
      return exit_code::kUnavailable;
    default:
      return exit_code::kIo;
  }
}

}  // namespace train
