#include "cmd/train-run/parent_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <thread>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/parse_job.h"
#include "cmd/train-run/run_life.h"
#include "launcher/cluster/children/child_folder.h"
#include "launcher/cluster/run/slurm_job.h"
#include "lib/base/exit_code.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/print.h"
#include "lib/base/store_url.h"
#include "lib/base/terminal_text.h"
#include "lib/observe/append_file.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

/// Write a file that only its owner can read, and sync it.
Result<Unit> write_private(const std::string& path, const std::string& text) {
  TRY_VOID(replace_private_file(path, text));
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0 || ::fsync(file.get()) != 0) return system_error(errno, "syncing " + path);
  return Unit{};
}

}  // namespace

int check_parent_place(const JobSpec& spec, std::string_view what) {
  if (is_object_url(spec.run_config.storage_path)) {
    print_error({Errc::InvalidArgument,
                 fmt::format("the folder of {} cannot be in an object store", what),
                 "set run_config.storage_path to a folder"});
    return exit_code::kBadSpec;
  }
  const auto slurm = slurm_job_of(spec, submitters_environment());
  if (!slurm) {
    print_error(slurm.error());
    return exit_code::kUnavailable;
  }
  if (!*slurm || !starts_daemons(spec, **slurm)) return 0;
  print_error({Errc::InvalidArgument,
               fmt::format("{} does not start daemons on the nodes of a Slurm job", what),
               "start traind on each node by srun, and name them with --hosts; or add --no-slurm "
               "to use this node only"});
  return exit_code::kUsage;
}

int make_parent_folder(const ParsedSpec& parsed, const SpecSource& source, std::string& path) {
  const std::string& name = parsed.spec.run_config.name;
  const std::string& storage = parsed.spec.run_config.storage_path;
  PosixFileSystem files;
  const auto made = name.ends_with(source.timestamp)
                        ? create_unique_run_folder(files, storage, name)
                        : create_run_folder(files, storage, name);
  if (!made) {
    Error error = made.error();
    const bool taken = error.code == Errc::AlreadyExists;
    if (taken)
      error.hint = fmt::format("go on with it by train-run resume {}, or give another name",
                               shell_word(join_path(storage, name)));
    print_error(error);
    return taken ? exit_code::kTaken : exit_code::kIo;
  }
  const RunFolder folder(made->path());
  for (const auto& [file, text] : {std::pair{folder.spec(), parsed.text},
                                   std::pair{folder.resolved_spec(), parsed.resolved_yaml}}) {
    if (const auto written = write_private(file, text); !written) {
      print_error(written.error());
      return exit_code::kIo;
    }
  }
  path = folder.path();
  return 0;
}

std::string running_text(const std::string& lock) {
  PosixFileSystem files;
  const auto holder = read_lock_holder(files, lock);
  return holder ? fmt::format("running (train-run pid {} on {}, since {})", holder->pid,
                              holder->host, holder->started)
                : "running";
}

int stop_children(const std::string& path, const std::string& lock, const std::string& request,
                  std::string_view children) {
  const RunFolder folder(path);
  Life life;  // of a detached one, too, whose train-run is being replaced
  if (!life.goes_on(folder)) {
    print_err("train-run: error: {} is not running\n", path);
    return 1;
  }
  PosixFileSystem files;
  std::optional<LockHolder> asked;
  while (life.goes_on(folder)) {
    // A moment after it has taken the folder, an owner has not written yet who it is.
    const auto held = is_held(lock);
    const auto owner = read_lock_holder(files, lock);
    if (held && *held && owner && owner != asked) {
      if (const auto written = replace_file(request, stop_text(*owner)); !written)
        return failed(written.error());
      if (!asked)
        print_out("asked the {} of {} to checkpoint and stop\n", children,
                  std::filesystem::path(path).filename().string());
      flush_out();
      asked = owner;
    }
    std::this_thread::sleep_for(kPollEvery);
  }
  std::error_code ec;
  if (asked && !std::filesystem::exists(request, ec)) return 0;
  print_err("train-run: error: {} was not stopped: its train-run has died\n", path);
  return exit_code::kUnavailable;
}

}  // namespace train
