#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <sstream>
#include <utility>

#include "cmd/build_info.h"
#include "cmd/train-run/detach.h"
#include "cmd/train-run/member.h"
#include "cmd/train-run/member_processes.h"
#include "cmd/train-run/parse_job.h"
#include "launcher/cluster/links/node_source.h"
#include "launcher/cluster/links/node_survey.h"
#include "launcher/cluster/links/private_daemon.h"
#include "launcher/core/member.h"
#include "launcher/core/ssh_hosts.h"
#include "launcher/core/start_watch.h"
#include "launcher/report/failure_text.h"
#include "lib/base/exit_code.h"
#include "lib/base/print.h"
#include "lib/base/stop_signals.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr Duration kTraindEndsWithin = seconds(3);    // once the launcher has told it
constexpr Duration kTraindStopsWithin = seconds(30);  // once it is told to stop its workers
constexpr Duration kTellWithin = seconds(5);
constexpr Duration kFindItselfWithin = seconds(60);
constexpr std::int64_t kRunWithinMsMax = 86'400'000;

int wrong(const Error& error, int code = exit_code::kUsage) {
  print_error(error);
  return code;
}

/// What this member is among the others.
struct Membership {
  int index = 0;
  std::uint16_t port = kTraindPort;  // of its own traind
  std::vector<std::string> options;  // by which the launcher finds all
  JobOptions job;                    // with the same options
};

Result<Membership> member_of_file(const JobOptions& job, const std::string& file) {
  Membership member;
  member.job = job;
  member.job.hosts_file = file;
  member.options = {"--hosts-file", file};
  ClusterConfig cluster;
  cluster.hosts_file = file;
  TRY(const NodeNames nodes, read_node_source(cluster));
  for (const std::string& node : nodes)
    if (node.starts_with("unix:") || node.starts_with(kSshPrefix))
      return Error{
          Errc::InvalidArgument,
          fmt::format("the hosts file '{}' names {}: members listen at HOST:PORT", file, node)};
  TRY(const std::size_t place, place_in(nodes, kFindItselfWithin));
  member.index = static_cast<int>(place);
  member.port = split_address(nodes[place]).port;
  return member;
}

Result<Membership> membership(const JobOptions& job, const std::string& text) {
  TRY(const MemberSource source, parse_member_source(text));
  if (source.kind == MemberSource::Kind::Hosts) return member_of_file(job, source.hosts_file);
  Membership member;
  member.job = job;
  if (source.kind == MemberSource::Kind::Slurm) {
    TRY(SlurmMember task, read_slurm_member(submitters_environment(), source.port));
    member.index = task.index;
    member.port = split_address(task.nodes.front()).port;
    member.job.hosts = fmt::format("{}", fmt::join(task.nodes, ","));
    member.options = {"--hosts", *member.job.hosts};
    return member;
  }
  TRY(member.index, member_index(submitters_environment()));
  member.port = source.dns.port;
  const std::string key = fmt::format("cluster.dns={}:{}", source.dns.name, source.dns.port);
  member.job.overrides.push_back(key);
  member.options = {"--set", key};
  return member;
}

/// Return the command line of the launcher: ours, but for --member and what only we need.
std::vector<std::string> launcher_words(const RunCommand& options, const Membership& member) {
  std::vector<std::string> words{own_program()};
  bool program = false;  // after "--"
  for (auto word = options.words.begin(); word != options.words.end(); ++word) {
    program |= *word == "--";
    const std::string name = word->substr(0, word->find('='));
    if (!program && (name == "--member" || name == "--traind-options")) {
      if (name == *word && word + 1 != options.words.end()) ++word;
      continue;
    }
    words.push_back(*word);
  }
  std::vector<std::string> more = member.options;
  more.insert(more.end(), {"--with-parent", fmt::format("{}", ::getpid())});
  add_options(words, more);
  return words;
}

std::vector<std::string> variables_without(const std::set<std::string>& names) {
  std::vector<std::string> variables;
  for (const auto& [name, value] : submitters_environment())
    if (!names.contains(name)) variables.push_back(name + "=" + value);
  return variables;
}

Result<std::vector<std::string>> traind_words(const RunCommand& options, const Membership& member,
                                              const JobSpec& spec) {
  TRY(std::string program, find_traind());
  std::vector<std::string> more;
  std::istringstream stream(options.traind_options);
  for (std::string word; stream >> word;) more.push_back(std::move(word));
  const Duration given = spec.run_config.failure_config.start_timeout;
  const auto within =
      std::chrono::duration_cast<milliseconds>(given > Duration{0} ? given : kStartTimeout);
  std::vector<std::string> words{
      std::move(program),
      "--listen",
      fmt::format(":{}", member.port),
      "--end-with-run",
      "--run-within",
      fmt::format("{}ms", std::min<std::int64_t>(within.count(), kRunWithinMsMax)),
      "--leave-with-stdin"};
  const bool has_tls = std::any_of(more.begin(), more.end(), [](const std::string& word) {
    return word == "--tls" || word.starts_with("--tls=");
  });
  if (!spec.cluster.token_file.empty())
    words.insert(words.end(), {"--token-file", spec.cluster.token_file});
  else if (!has_tls)
    return Error{
        Errc::Unauthenticated,
        spec.cluster.tls.empty()
            ? "--member: there is no token, so anyone who reaches this node could use it"
            : "--member: the certificate in cluster.tls is the launcher's, and a node needs its "
              "own",
        spec.cluster.tls.empty()
            ? "give --token-file FILE (made by `traind token FILE`, the same for all members)"
            : "name it: --traind-options '--tls FOLDER' (made by `traind certs node`)"};
  // Workers run as this user in any case: nobody else has the token.
  if (::geteuid() == 0) words.emplace_back("--allow-root");
  if (std::getenv("TRAINRUN_LOG_LEVEL") == nullptr)
    words.insert(words.end(), {"--log-level", "warn"});
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

class Member {
 public:
  Member(Membership membership, const JobSpec& spec, MemberTraind traind)
      : membership_(std::move(membership)), spec_(spec), traind_(std::move(traind)) {}

  /// Launch the run, too.
  Result<Unit> launch(std::vector<std::string> words) {
    TRY(launcher_,
        MemberProcess::start({.words = std::move(words),
                              .variables = variables_without(
                                  {"TRAINRUN_HOSTS", "TRAINRUN_HOSTS_FILE", "TRAINRUN_SSH"})}));
    return Unit{};
  }

  int run() {
    std::optional<int> code;
    while (!code) {
      wait();
      pass_signals_on();
      code = look();
    }
    // Supervisors that have outlived a traind which was killed still use its folders.
    if (!traind_killed_) traind_.clean_up();
    return *code;
  }

 private:
  void say(const std::string& text) const {
    print_err("train-run: member {}: {}\n", membership_.index, text);
  }

  /// Return the exit code, once this member has ended.
  std::optional<int> look() {
    if (traind_.is_ready() && !std::exchange(told_, true) && !launcher_)
      say(fmt::format("its traind listens on port {}; member 0 starts the run", membership_.port));
    look_at_traind();
    if (!launcher_) return traind_code_;
    if (const auto& end = launcher_->ended(); end && !launcher_code_) launcher_ended(*end);
    if (!launcher_code_) return std::nullopt;
    if (traind_code_) return failed_ ? *traind_code_ : *launcher_code_;
    hurry_traind();
    return std::nullopt;
  }

  void look_at_traind() {
    if (traind_code_) return;
    const auto end = traind_.process().ended();
    if (!end) return;
    if (end->signal != 0 && !launcher_code_) {
      say(fmt::format("warning: its traind was killed by {}: it is started again",
                      signal_name(end->signal)));
      const auto again = traind_.start_again();
      if (again) return;
      print_error(again.error());
    }
    failed_ = !launcher_code_ && (end->signal != 0 || !traind_.is_ready());
    traind_killed_ = end->signal != 0;
    traind_code_ = end->signal != 0 ? exit_code::kUnavailable : end->code;
    if (!failed_ || !launcher_) return;
    asked_ = SIGTERM;
    launcher_->send_signal(asked_);
  }

  void launcher_ended(const MemberProcess::End& end) {
    ended_at_ = std::chrono::steady_clock::now();
    if (end.signal == 0) {
      launcher_code_ = end.code;
    } else if (end.signal == asked_) {  // it had not begun yet
      launcher_code_ = asked_ == SIGINT ? exit_code::kInterrupted : exit_code::kRequeue;
    } else {
      launcher_code_ = exit_code::kUnavailable;
      print_error(
          {Errc::Unavailable,
           fmt::format("the launcher of this run was killed by {}", signal_name(end.signal)),
           "the other members wait for another one as long as orphan_timeout says: start "
           "this member again to resume the run"});
      killed_ = true;
    }
  }

  /// The run has ended, and our traind is still there.
  void hurry_traind() {
    const Duration waited = std::chrono::steady_clock::now() - ended_at_;
    if (waited < kTraindEndsWithin && !killed_) return;
    if (killed_ || std::exchange(told_all_, true)) {
      traind_.let_go();
      if (waited > kTraindStopsWithin + kTellWithin) traind_.process().send_signal(SIGKILL);
      return;
    }
    // The run has not begun: nobody else tells the others.
    const auto cluster = with_found_nodes(spec_.cluster, kTellWithin);
    if (cluster) tell_run_end(*cluster, kBuild, kTellWithin, *launcher_code_);
  }

  void wait() {
    std::array<pollfd, 4> watched{
        pollfd{signals_.fd(), POLLIN, 0},
        pollfd{traind_code_ ? -1 : traind_.process().fd(), POLLIN, 0},
        pollfd{told_ ? -1 : traind_.output(), POLLIN, 0},
        pollfd{launcher_ && !launcher_code_ ? launcher_->fd() : -1, POLLIN, 0}};
    constexpr int kLookEveryMs = 500;
    (void)::poll(watched.data(), watched.size(), kLookEveryMs);
    reap_adopted();
  }

  /// As process 1 of a container, we get the orphans.
  void reap_adopted() {
    if (::getpid() != 1) return;
    siginfo_t info{};
    while (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0) {
      if (info.si_pid == traind_.process().pid() || (launcher_ && info.si_pid == launcher_->pid()))
        return;  // look() takes it
      ::waitpid(info.si_pid, nullptr, WNOHANG);
      info.si_pid = 0;
    }
  }

  void pass_signals_on() {
    while (const int number = signals_.take()) {
      asked_ = number;
      if (launcher_ && !launcher_code_)
        launcher_->send_signal(number);
      else
        traind_.process().send_signal(number == SIGUSR1 ? SIGUSR1 : SIGTERM);
    }
  }

  const Membership membership_;
  const JobSpec& spec_;
  const StopSignals signals_;
  MemberTraind traind_;
  std::optional<MemberProcess> launcher_;
  std::optional<int> traind_code_, launcher_code_;
  bool traind_killed_ = false;
  bool failed_ = false;    // the traind could not start, or was killed too often
  bool killed_ = false;    // the launcher
  bool told_ = false;      // that the traind listens
  bool told_all_ = false;  // that the run has ended
  int asked_ = 0;          // the signal that came last
  TimePoint ended_at_;     // the launcher
};

}  // namespace

int member_command(const JobOptions& job, const RunCommand& options) {
  if (options.detach)
    return wrong({Errc::InvalidArgument, "--member and --detach exclude each other",
                  "a member ends with its run: leave --detach out"});
  if (job.hosts || job.hosts_file || job.ssh)
    return wrong({Errc::InvalidArgument,
                  "--member says where the nodes are, and so do --hosts, --hosts-file or --ssh (or "
                  "TRAINRUN_HOSTS, TRAINRUN_HOSTS_FILE, TRAINRUN_SSH)",
                  "leave them out"});
  auto member = membership(job, options.member);
  if (!member)
    return wrong(member.error(), member.error().code == Errc::InvalidArgument ||
                                         member.error().code == Errc::NotFound
                                     ? exit_code::kUsage
                                     : exit_code::kUnavailable);
  if (options.dry_run || options.print_config) {
    RunCommand only_shown = options;
    only_shown.member.clear();
    return run_command(member->job, only_shown);
  }
  SpecSource source;
  const auto parsed = parse_job(member->job, &source);
  if (!parsed) return exit_code::kBadSpec;
  const JobSpec& spec = parsed->spec;
  auto words = traind_words(options, *member, spec);
  if (!words)
    return wrong(words.error(), words.error().code == Errc::Unauthenticated
                                    ? exit_code::kPermission
                                    : exit_code::kUnavailable);
  auto traind = MemberTraind::start(
      std::move(*words),
      variables_without({"TRAINRUN_LISTEN", "TRAINRUN_TOKEN_FILE", "TRAINRUN_TLS"}));
  if (!traind) return wrong(traind.error(), exit_code::kUnavailable);
  const bool launches = member->index == 0;
  std::vector<std::string> launcher = launcher_words(options, *member);
  Member here(std::move(*member), spec, std::move(*traind));
  if (launches)
    if (const auto launched = here.launch(std::move(launcher)); !launched)
      return wrong(launched.error(), exit_code::kUnavailable);
  return here.run();
}

}  // namespace train
