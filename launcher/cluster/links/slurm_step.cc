#include "launcher/cluster/links/slurm_step.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "lib/base/open_files.h"
#include "lib/base/spawn.h"
#include "lib/base/utf8.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

constexpr std::size_t kLineBytesMax = 1024;
constexpr std::size_t kLogBytesMax = 64u << 20, kEarlyLogBytesMax = 256u << 10;
constexpr std::size_t kTroublesMax = 16;  // between two looks
constexpr Duration kSayAfter = seconds(5);
constexpr std::size_t kNamedNodesMax = 8;

struct PipeEnds {
  FileDescriptor reading, writing;
};

Result<PipeEnds> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "making a pipe");
  return PipeEnds{FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

int milliseconds_until(TimePoint until) {
  const Duration left = until - std::chrono::steady_clock::now();
  return static_cast<int>(std::chrono::ceil<milliseconds>(std::max(left, Duration{0})).count());
}

bool is_of_srun(std::string_view line) {
  return line.starts_with("srun: ") || line.starts_with("slurmstepd");
}

/// Return what of srun's lines a user should see: errors, and why it waits.
bool is_trouble(std::string_view line) {
  return is_of_srun(line) && line.find("got SIGCONT") == std::string_view::npos &&
         line.find("launch/slurm: launch_p_step_launch") == std::string_view::npos;
}

std::string names_of(const std::vector<std::string>& nodes) {
  std::string text;
  for (std::size_t i = 0; i < std::min(nodes.size(), kNamedNodesMax); ++i)
    text += (i == 0 ? "" : ", ") + nodes[i];
  if (nodes.size() > kNamedNodesMax)
    text += fmt::format(" and {} more", nodes.size() - kNamedNodesMax);
  return text;
}

}  // namespace

// ---- starting

Result<SlurmStep> SlurmStep::start(SlurmAllocation allocation, const std::string& traind,
                                   const EnvironmentMap& environment) {
  SlurmStep step(std::move(allocation), Token::generate());
  TRY_VOID(step.spawn(traind, environment));
  return step;
}

// In a session of its own: Ctrl-C in the terminal of an interactive job is for us, and srun would
// end the step.
Result<Unit> SlurmStep::spawn(const std::string& traind, const EnvironmentMap& environment) {
  TRY(PipeEnds input, make_pipe());
  TRY(PipeEnds output, make_pipe());
  TRY(PipeEnds errors, make_pipe());
  std::vector<std::string> argv = srun_arguments(allocation_, traind), variables;
  argv.insert(argv.begin(), "srun");
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  SpawnActions files;
  ::posix_spawn_file_actions_adddup2(&files.actions, input.reading.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, output.writing.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&files.actions, errors.writing.get(), STDERR_FILENO);
  ::posix_spawn_file_actions_addclosefrom_np(&files.actions, STDERR_FILENO + 1);
  SpawnAttributes how;
  how.set_flags(POSIX_SPAWN_SETSID);
  const InitialOpenFiles its_limit;  // srun passes it on to the daemons, and they to the workers
  const int error = ::posix_spawnp(&pid_, "srun", &files.actions, &how.attributes,
                                   pointers_to(argv).data(), pointers_to(variables).data());
  if (error != 0) {
    pid_ = -1;
    return Error{Errc::Unavailable,
                 fmt::format("this is job {} of Slurm, but srun cannot be started: {}",
                             allocation_.job_id, ::strerror(error)),
                 "put srun into PATH, or add --no-slurm to use this node only"};
  }
  process_.reset(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  for (PipeEnds* pipe : {&output, &errors}) ::fcntl(pipe->reading.get(), F_SETFL, O_NONBLOCK);
  input_ = std::move(input.writing);
  output_.end = std::move(output.reading);
  error_.end = std::move(errors.reading);
  // If srun has ended already, wait_for_daemons() says why.
  (void)write_all(input_.get(), token_.bytes(), "srun's input");
  (void)write_all(input_.get(), "\n", "srun's input");
  return Unit{};
}

Result<Unit> SlurmStep::wait_for_daemons(Duration limit,
                                         const std::function<void(const std::string&)>& say) {
  const TimePoint began = std::chrono::steady_clock::now(), until = began + limit;
  bool said = false;
  for (;;) {
    read_pipes();
    reap(false);
    if (come_.size() == allocation_.nodes.size()) return Unit{};
    if (ended_ || failed_task_) return failure();
    const TimePoint now = std::chrono::steady_clock::now();
    if (now >= until) return failure();
    if (!said && now - began >= kSayAfter) {
      said = true;
      say(fmt::format("waiting for the daemons of {} of {} nodes: {}{}", missing_nodes().size(),
                      allocation_.nodes.size(), names_of(missing_nodes()),
                      last_trouble_.empty() ? "" : " (" + last_trouble_ + ")"));
    }
    std::array<pollfd, 3> watched{pollfd{output_.end.get(), POLLIN, 0},
                                  pollfd{error_.end.get(), POLLIN, 0},
                                  pollfd{process_.get(), POLLIN, 0}};
    const TimePoint next = said ? until : std::min(until, began + kSayAfter);
    (void)::poll(watched.data(), watched.size(), milliseconds_until(next));
  }
}

std::vector<std::string> SlurmStep::daemons() const {
  std::vector<std::string> addresses;
  for (const std::string& node : allocation_.nodes)
    if (const auto found = come_.find(node); found != come_.end())
      addresses.push_back(found->second);
  return addresses;
}

std::vector<std::string> SlurmStep::missing_nodes() const {
  std::vector<std::string> missing;
  for (const std::string& node : allocation_.nodes)
    if (!come_.contains(node)) missing.push_back(node);
  return missing;
}

Error SlurmStep::failure() const {
  const std::string why = failed_task_ && !first_of_traind_.empty() ? first_of_traind_
                          : !first_error_.empty()                   ? first_error_
                          : failed_task_                            ? *failed_task_
                          : !last_trouble_.empty()                  ? last_trouble_
                                                                    : ended_.value_or("");
  const auto missing = missing_nodes();
  const bool says_so = why.find("No such file") != std::string::npos;
  const bool other = why.find("not expected") != std::string::npos;
  return {Errc::Unavailable,
          fmt::format("the daemons of {} of {} nodes of Slurm's job {} did not come up ({}){}{}",
                      missing.size(), allocation_.nodes.size(), allocation_.job_id,
                      names_of(missing), why.empty() ? "" : ": ", why),
          says_so ? "traind must be at the same path on all nodes: install it there, or set "
                    "TRAINRUN_TRAIND to a path that all of them have"
          : other ? "the traind on the nodes is not of this version of train-run"
                  : "add --no-slurm to run without Slurm's nodes"};
}

// ---- what it says

bool SlurmStep::read_lines(Pipe& pipe, const std::function<void(std::string_view)>& take) {
  std::array<char, 4096> piece;
  for (;;) {
    const ssize_t size = ::read(pipe.end.get(), piece.data(), piece.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return size < 0 && errno == EAGAIN;
    for (const char c : std::string_view(piece.data(), static_cast<std::size_t>(size))) {
      if (c == '\n') {
        take(utf8_text(pipe.line, kLineBytesMax));
        pipe.line.clear();
      } else if (pipe.line.size() < kLineBytesMax) {
        pipe.line.push_back(c);
      }
    }
  }
}

void SlurmStep::read_pipes() {
  if (output_.end.get() >= 0 &&
      !read_lines(output_, [this](std::string_view line) { take_output(line); }))
    output_.end.reset();
  if (error_.end.get() >= 0 &&
      !read_lines(error_, [this](std::string_view line) { take_error(line); }))
    error_.end.reset();
}

// Only nodes of ours count, and each once.
void SlurmStep::take_output(std::string_view line) {
  auto announcement = parse_announcement(line);
  if (!announcement) return take_error(line);  // of a shell's start file, perhaps
  const auto& nodes = allocation_.nodes;
  if (std::find(nodes.begin(), nodes.end(), announcement->name) != nodes.end())
    come_.try_emplace(announcement->name, std::move(announcement->endpoint));
}

void SlurmStep::take_error(std::string_view line) {
  const bool of_task =
      line.starts_with("srun: error: ") && line.find(": task ") != std::string_view::npos;
  if (is_trouble(line)) {
    last_trouble_ = line;
    if (troubles_.size() < kTroublesMax) troubles_.emplace_back(line);
    if (of_task && !failed_task_) failed_task_ = line;
    const bool error = !of_task && line.find("error: ") != std::string_view::npos;
    if (error && first_error_.empty()) first_error_ = line;
  } else if (line.starts_with("traind: ") && first_of_traind_.empty()) {
    first_of_traind_ = line;
  }
  if (log_bytes_ + line.size() >= (log_.get() < 0 ? kEarlyLogBytesMax : kLogBytesMax)) return;
  log_bytes_ += line.size() + 1;
  const std::string whole = std::string(line) + "\n";
  if (log_.get() < 0)
    log_text_ += whole;
  else
    (void)write_all(log_.get(), whole, "traind.log");
}

void SlurmStep::keep_log(const std::string& path) {
  log_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (log_.get() >= 0) (void)write_all(log_.get(), log_text_, path);
  log_text_.clear();
}

std::vector<std::string> SlurmStep::look() {
  read_pipes();
  reap(false);
  return std::exchange(troubles_, {});
}

// ---- its end

void SlurmStep::reap(bool wait) {
  if (pid_ <= 0 || ended_) return;
  int status = 0;
  pid_t gone = 0;
  do gone = ::waitpid(pid_, &status, wait ? 0 : WNOHANG);
  while (gone < 0 && errno == EINTR);
  if (gone == 0) return;
  ended_ = WIFSIGNALED(status) ? fmt::format("srun was killed by signal {}", WTERMSIG(status))
                               : fmt::format("srun ended with {}", WEXITSTATUS(status));
  read_pipes();
}

void SlurmStep::close() {
  input_.reset();
  const TimePoint until = std::chrono::steady_clock::now() + kSlurmEndLimit;
  for (;;) {
    read_pipes();
    reap(false);
    if (ended_ || pid_ <= 0) return;
    if (std::chrono::steady_clock::now() >= until) break;
    std::array<pollfd, 3> watched{pollfd{output_.end.get(), POLLIN, 0},
                                  pollfd{error_.end.get(), POLLIN, 0},
                                  pollfd{process_.get(), POLLIN, 0}};
    (void)::poll(watched.data(), watched.size(), milliseconds_until(until));
  }
  ::kill(pid_, SIGKILL);
  reap(true);
}

}  // namespace train
