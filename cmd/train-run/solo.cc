#include "cmd/train-run/solo.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "cmd/exit_code_of.h"
#include "daemon/supervisor/processes/process_sampler.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "launcher/cluster/links/start_messages.h"
#include "launcher/cluster/run/driver_port.h"
#include "launcher/cluster/run/folder_owner.h"
#include "launcher/cluster/run/solo_run.h"
#include "launcher/core/placement.h"
#include "launcher/report/summary.h"
#include "launcher/spec/secrets.h"
#include "lib/base/exec_program.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/print.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

using Environment = std::map<std::string, std::string>;

/// Before the name of its folder. No run's name begins with "_", so no run gets that folder.
constexpr std::string_view kPrefix = "_solo-";
constexpr std::string_view kContext = "context.json";  // what TRAINRUN_SPEC names

Result<Unit> check_options(const RunCommand& options) {
  const auto cannot = [](const char* option, const char* why) {
    return Error{Errc::InvalidArgument,
                 fmt::format("{} and num_workers: 0 exclude each other: {}", option, why),
                 "leave it out, or ask for a worker: --num-workers 1"};
  };
  const char* kInPlace = "the program runs in place of train-run";
  if (options.detach) return cannot("--detach", "the program has this terminal");
  if (options.pace > 0) return cannot("--pace", "the program waits for nobody");
  if (options.keep_workers) return cannot("--keep-workers", "there are none to keep");
  if (options.output == "json") return cannot("--output json", kInPlace);
  if (options.events == "all") return cannot("--events all", kInPlace);
  if (options.with_parent > 0) return cannot("--member", kInPlace);
  if (!options.shared_daemon.empty()) return cannot("a sweep", "a trial reports to train-run");
  if (!options.wait_for_debugger.empty())
    return cannot("--wait-for-debugger", "start the program in the debugger, by gdb --args");
  return Unit{};
}

/// Return the run's name, without the time that a default name ends with: the program is to find
/// its checkpoints again.
std::string name_of(const JobSpec& spec, const SpecSource& source) {
  std::string name = spec.run_config.name;
  const std::string time = "-" + source.timestamp;
  if (name.size() > time.size() && name.ends_with(time)) name.resize(name.size() - time.size());
  return name;
}

/// Make the program's folder if it is missing, and lock it until the program ends: it inherits the
/// descriptor.
Result<Unit> take_folder(FileSystem& fs, const std::string& name, const RunFolder& folder) {
  TRY_VOID(make_folders(fs, folder.path()));
  TRY_VOID(check_folder_owner(folder.path(), "the program " + name));
  const int fd = ::open(folder.lock().c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, 0600);
  if (fd < 0) return system_error(errno, "opening " + folder.lock());
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return Unit{};
  const int why = errno;
  ::close(fd);
  if (why != EWOULDBLOCK) return system_error(why, "locking " + folder.lock());
  return Error{Errc::AlreadyExists, fmt::format("another program runs alone in {}", folder.path()),
               "end it, or choose another name: --name, or run_config.name"};
}

/// Return a port that is free now, for libraries that insist on MASTER_PORT.
Result<std::uint32_t> free_port() {
  const FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (fd.get() < 0 || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return system_error(errno, "finding a free port");
  return ntohs(address.sin_port);
}

/// What the only worker of the only node would be told.
StartWorkers start_of(const JobSpec& spec, const std::string& name, const RunFolder& folder,
                      std::uint32_t port, const Environment& env) {
  const PlacedNode here{NodeId{0}, NodeRank{0}, Rank{0}, 1};
  const Placement alone{.world_size = 1, .nodes = {here}, .reason = ""};
  const RunIdentity run{.run_id = name,
                        .name = name,
                        .generation = Generation{0},
                        .location = folder.path(),
                        .storage_marker = ""};
  return start_message(spec, run, {Attempt{0}, here, alone, "127.0.0.1", port, {}}, env);
}

/// Return the worker's environment without what only a supervised worker has. The SDK chooses the
/// attempt, because a debugger may start the program more than once.
Environment environment_of(const JobSpec& spec, const RunFolder& folder,
                           const StartWorkers& start) {
  const WorkerRanks alone;  // a world of one
  Environment env = worker_environment({start, Attempt{0}, "", {}}, {alone, "", "", ""});
  for (const char* name : {"TRAINRUN_SOCKET", "TRAINRUN_ATTEMPT", "TRAINRUN_CHECKPOINT_DIR",
                           "TORCHELASTIC_ERROR_FILE"})
    env.erase(name);
  if (spec.scaling_config.use_gpu) {  // no traind grants GPUs, so it may use all that we may
    env.erase("CUDA_VISIBLE_DEVICES");
    const auto own = start.env.find("CUDA_VISIBLE_DEVICES");
    if (own != start.env.end()) env.insert(*own);
  }
  env["TRAINRUN_SPEC"] = join_path(folder.path(), kContext);
  env["TRAINRUN_SOLO_DIR"] = folder.path();
  return env;
}

int show(const JobSpec& spec, const std::string& name, const RunFolder& folder) {
  const JobSpec shown = spec::shown_spec(spec);
  print_out("run:       {}\nfolder:    {}\ncommand:   {}\nin:        {}\n", name, folder.path(),
            fmt::format("{}", fmt::join(spec.command, " ")), spec.working_dir);
  print_out("workers:   0: the program runs alone, in place of train-run\n");
  Environment env = environment_of(shown, folder, start_of(shown, name, folder, 1, shown.env));
  env["MASTER_PORT"] = "(chosen at start)";
  print_out("environment, in addition to the caller's:\n");
  for (const auto& [variable, value] : env) print_out("  {}={}\n", variable, value);
  return 0;
}

/// Go to the working directory, take the folder, and write what the program reads. Return its
/// environment.
Result<Environment> prepare(const JobSpec& spec, const std::string& name, const RunFolder& folder,
                            const Environment& submitter) {
  TRY(const Environment env, spec::worker_environment(spec, submitter));
  if (::chdir(spec.working_dir.c_str()) != 0)
    return system_error(errno, "working_dir " + spec.working_dir);
  TRY(const std::uint32_t port, free_port());
  PosixFileSystem fs;
  TRY_VOID(take_folder(fs, name, folder));
  const StartWorkers start = start_of(spec, name, folder, port, env);
  TRY_VOID(replace_private_file(join_path(folder.path(), kContext), spec_json(start.run)));
  return environment_of(spec, folder, start);
}

}  // namespace

int run_solo(const ParsedSpec& parsed, const SpecSource& source, const RunCommand& options) {
  const JobSpec& spec = parsed.spec;
  const std::string name = name_of(spec, source);
  const RunFolder folder(join_path(spec.run_config.storage_path, std::string(kPrefix) + name));
  if (options.dry_run) return show(spec, name, folder);
  const auto refuse = [&](const Error& error, int code) {
    print_error(error);
    if (options.driver_fd >= 0) tell_driver(options.driver_fd, refusal_event(code, error) + "\n");
    return code;
  };
  if (options.driver_fd >= 0) {
    if (const auto checked = check_driver_socket(options.driver_fd); !checked) {
      print_error(checked.error());
      return exit_code::kUsage;
    }
  }
  if (const auto checked = check_options(options); !checked)
    return refuse(checked.error(), exit_code::kUsage);
  for (const std::string& warning : parsed.warnings) print_err("{}\n", Lines{warning});
  ::umask(static_cast<mode_t>(spec.run_config.umask.bits));
  const auto env = prepare(spec, name, folder, source.environment);
  if (!env)
    return refuse(env.error(), env.error().code == Errc::InvalidSpec ? exit_code::kBadSpec
                                                                     : exit_code_of(env.error()));
  if (options.driver_fd >= 0) {
    const auto code =
        run_solo_for_driver({.spec = spec,
                             .name = name,
                             .folder = folder,
                             .environment = *env,
                             .driver_fd = options.driver_fd,
                             .outlives_driver = options.on_driver_exit == "leave",
                             .process_tree = [] { return process_tree(::getpid()); }});
    return code ? *code : refuse(code.error(), exit_code_of(code.error()));
  }
  print_err("train-run: num_workers is 0: {} runs alone, in place of train-run; its folder: {}\n",
            name, folder.path());
  ::clearenv();
  for (const auto& [variable, value] : *env) ::setenv(variable.c_str(), value.c_str(), 1);
  const Error why = exec_program(spec.command);
  print_error(why);
  return why.code == Errc::NotFound ? exit_code::kNoSuchCommand : exit_code::kCannotExecute;
}

}  // namespace train
