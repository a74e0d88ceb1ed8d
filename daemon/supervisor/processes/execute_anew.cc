#include "daemon/supervisor/processes/execute_anew.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <linux/close_range.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/open_files.h"
#include "lib/base/write_all.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

/// Write to a file that only this process and what it executes can reach. Return it, positioned at
/// its end.
Result<FileDescriptor> private_file(const std::string& bytes) {
  FileDescriptor file(::memfd_create("trainrun-kept", MFD_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "making a file in memory");
  TRY_VOID(write_all(file.get(), bytes, "the workers to keep"));
  return file;
}

void inherit(int fd) {
  if (fd >= 0) ::fcntl(fd, F_SETFD, 0);
}

}  // namespace

std::vector<std::string> supervise_command(const SupervisorOptions& options) {
  std::vector<std::string> argv{"/proc/self/exe",
                                "supervise",
                                "--run",
                                options.run_id,
                                "--attempt",
                                fmt::format("{}", options.attempt.value),
                                "--link-fd",
                                fmt::format("{}", options.link_fd),
                                "--socket-fd",
                                fmt::format("{}", options.socket_fd),
                                "--spool",
                                options.spool_dir,
                                "--data",
                                options.data_dir,
                                "--cgroup",
                                options.cgroup_name,
                                "--orphan-timeout-ms",
                                fmt::format("{}", options.orphan_timeout_ms)};
  const auto add = [&](const char* name, std::string value) {
    argv.emplace_back(name);
    argv.push_back(std::move(value));
  };
  if (options.kept_fd >= 0) add("--kept-fd", fmt::format("{}", options.kept_fd));
  if (const auto& account = options.account) {
    add("--uid", fmt::format("{}", account->uid));
    add("--gid", fmt::format("{}", account->gid));
    add("--groups", fmt::format("{}", fmt::join(account->groups, ",")));
  }
  return argv;
}

Error execute_anew(SupervisorOptions options, const KeptWorkers& kept) {
  const auto file = private_file(encode(kept).payload);
  if (!file) return file.error();
  options.kept_fd = file->get();
  const InitialOpenFiles limit;  // which the programs that it starts are to get
  (void)::close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  for (const int fd : {options.kept_fd, options.link_fd, options.socket_fd}) inherit(fd);
  for (const KeptWorker& worker : kept.workers) {
    inherit(worker.stdout_fd);
    inherit(worker.stderr_fd);
  }
  std::vector<std::string> words = supervise_command(options);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execve(argv[0], argv.data(), environ);
  return system_error(errno, "executing traind again");
}

Result<KeptWorkers> read_kept(FileDescriptor file) {
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) return system_error(errno, "reading the workers to keep");
  std::string payload(static_cast<std::size_t>(status.st_size), '\0');
  for (std::size_t got = 0; got < payload.size();) {
    const ssize_t size =
        ::pread(file.get(), payload.data() + got, payload.size() - got, static_cast<off_t>(got));
    if (size <= 0) return system_error(size < 0 ? errno : EIO, "reading the workers to keep");
    got += static_cast<std::size_t>(size);
  }
  TRY(KeptWorkers kept,
      decode<KeptWorkers>(Frame{
          .type = MessageType::KeptWorkers, .attempt = kNoAttempt, .payload = std::move(payload)}));
  for (const KeptWorker& worker : kept.workers)
    for (const int fd : {worker.stdout_fd, worker.stderr_fd})
      if (fd >= 0) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return kept;
}

}  // namespace train
