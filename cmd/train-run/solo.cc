#include "cmd/train-run/solo.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <cstdlib>

#include "daemon/supervisor/workers/worker_environment.h"
#include "launcher/cluster/links/start_messages.h"
#include "launcher/cluster/run/solo_mark.h"
#include "launcher/core/placement.h"
#include "launcher/spec/secrets.h"
#include "lib/base/error.h"
#include "lib/base/exit_code.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/print.h"
#include "lib/base/user_account.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

using Environment = std::map<std::string, std::string>;

constexpr std::string_view kSuffix =
    "-solo";  // of its folder, so that runs of the job may have theirs
constexpr std::uint32_t kStartsMax = 1u << 20;

Result<Unit> check_options(const RunCommand& options) {
  const auto cannot = [](const char* option, const char* why) {
    return Error{Errc::InvalidArgument,
                 fmt::format("{} and num_workers: 0 exclude each other: {}", option, why),
                 "leave it out, or ask for a worker: --num-workers 1"};
  };
  if (options.detach) return cannot("--detach", "the program has this terminal");
  if (options.driver_fd >= 0)
    return cannot("--driver-fd", "the program runs in place of train-run, which serves drivers");
  return Unit{};
}

/// Make <storage_path>/<name>-solo, or take that of an earlier start.
Result<RunFolder> folder_of(FileSystem& fs, const RunConfig& config) {
  const std::string name = config.name + std::string(kSuffix);
  auto made = create_run_folder(fs, config.storage_path, name);
  if (made) {
    TRY_VOID(write_small_file(fs, join_path(made->path(), kSoloMark), ""));
    return made;
  }
  if (made.error().code != Errc::AlreadyExists) return std::move(made).error();
  RunFolder folder(join_path(config.storage_path, name));
  struct stat found {};
  const bool ours = ::lstat(folder.path().c_str(), &found) == 0 && S_ISDIR(found.st_mode) &&
                    found.st_uid == file_user();
  const auto mark = fs.status(join_path(folder.path(), kSoloMark));
  if (ours && mark) return folder;
  return Error{Errc::AlreadyExists,
               fmt::format("{} is not the folder of a program that ran alone{}", folder.path(),
                           mark ? " for this user" : ""),
               "choose another name: --name, or run_config.name"};
}

/// Make the folder of this start: attempts/000 for the first, and so on.
Result<Attempt> next_attempt(FileSystem& fs, const RunFolder& folder) {
  TRY_VOID(make_folders(fs, parent_path(folder.attempt(Attempt{0}))));
  for (std::uint32_t number = 0; number < kStartsMax; ++number) {
    const auto made = fs.make_folder(folder.attempt(Attempt{number}));
    if (made) return Attempt{number};
    if (made.error().code != Errc::AlreadyExists) return made.error();
  }
  return Error{Errc::ResourceExhausted,
               fmt::format("{} was started {} times", folder.path(), kStartsMax),
               "choose another name"};
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

/// Return the whole environment of the program, and write the file that it names.
Result<Environment> prepare(const JobSpec& spec, const RunFolder& folder, FileSystem& fs,
                            const Environment& submitter) {
  TRY(const Environment of_job, spec::worker_environment(spec, submitter));
  TRY(const Attempt attempt, next_attempt(fs, folder));
  const PlacedNode here{NodeId{0}, NodeRank{0}, Rank{0}, 1};
  const Placement alone{.world_size = 1, .nodes = {here}, .reason = ""};
  Start start{attempt, here, alone, "127.0.0.1", 0, {}};
  TRY(start.master_port, free_port());
  const RunIdentity run{.run_id = spec.run_config.name,
                        .name = spec.run_config.name,
                        .generation = Generation{0},
                        .location = folder.path(),
                        .storage_marker = ""};
  const StartWorkers message = start_message(spec, run, start, of_job);
  Environment env =
      worker_environment({message, attempt, "", {}}, {ranks_on(here, alone).front(), "", "", ""});
  for (const char* name : {"TRAINRUN_SOCKET", "TRAINRUN_CHECKPOINT_DIR", "TORCHELASTIC_ERROR_FILE"})
    env.erase(name);
  if (spec.scaling_config.use_gpu) {  // no traind grants GPUs, so it may use all that we may
    env.erase("CUDA_VISIBLE_DEVICES");
    if (const auto own = of_job.find("CUDA_VISIBLE_DEVICES"); own != of_job.end()) env.insert(*own);
  }
  const std::string context = join_path(folder.attempt(attempt), "context.json");
  TRY_VOID(write_small_file(
      fs, context,
      fmt::format(R"({{"train_loop_config": {}, "metadata": {}, "datasets": {}}})",
                  message.run.config_json, message.run.metadata_json, message.run.datasets_json)));
  env["TRAINRUN_SPEC"] = context;
  env["TRAINRUN_SOLO_DIR"] = folder.path();
  return env;
}

/// Become the program. Return why not.
int become(const JobSpec& spec, const Environment& env) {
  if (::chdir(spec.working_dir.c_str()) != 0) {
    print_error(system_error(errno, "working_dir " + spec.working_dir));
    return exit_code::kIo;
  }
  ::clearenv();
  for (const auto& [name, value] : env) ::setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> words;
  for (const std::string& word : spec.command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  flush_out();
  ::signal(SIGABRT, SIG_DFL);
  ::execvp(words[0], words.data());
  const int why = errno;
  print_error(system_error(why, fmt::format("the command '{}' cannot be executed in {}",
                                            spec.command.front(), spec.working_dir)));
  return why == ENOENT ? exit_code::kNoSuchCommand : exit_code::kCannotExecute;
}

}  // namespace

int run_solo(const JobSpec& spec, const RunCommand& options, const Environment& submitter) {
  if (const auto checked = check_options(options); !checked) {
    print_error(checked.error());
    return exit_code::kUsage;
  }
  ::umask(static_cast<mode_t>(spec.run_config.umask.bits));
  PosixFileSystem fs;
  const auto folder = folder_of(fs, spec.run_config);
  if (!folder) {
    print_error(folder.error());
    return folder.error().code == Errc::AlreadyExists ? exit_code::kTaken : exit_code::kIo;
  }
  const auto env = prepare(spec, *folder, fs, submitter);
  if (!env) {
    print_error(env.error());
    return env.error().code == Errc::InvalidSpec ? exit_code::kBadSpec : exit_code::kIo;
  }
  print_err("train-run: num_workers is 0: {} runs alone, in place of train-run; its folder: {}\n",
            spec.run_config.name, folder->path());
  return become(spec, *env);
}

}  // namespace train
