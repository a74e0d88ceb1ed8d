#include "launcher/cluster/notify/notify_command.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "launcher/cluster/run/child_program.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

/// Return a file that holds the input: a program that reads nothing makes nobody wait.
Result<FileDescriptor> input_file(std::string_view input) {
  FileDescriptor file(::memfd_create("notification", MFD_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "making a file in memory");
  TRY_VOID(write_all(file.get(), input, "a file in memory"));
  if (::lseek(file.get(), 0, SEEK_SET) < 0) return system_error(errno, "reading a file in memory");
  return file;
}

}  // namespace

Result<Unit> run_notify_command(const NotifyCommand& command,
                                const std::function<TimePoint()>& deadline) {
  TRY(const FileDescriptor input, input_file(command.input));
  TRY(ChildProgram child, ChildProgram::start({.argv = command.argv,
                                               .folder = command.folder,
                                               .environment = command.environment,
                                               .input = input.get()}));
  LastOutput said;
  const auto take = [&said](std::string_view data) { said.add(data); };
  const bool ended = child.wait(deadline, take);
  if (!ended) child.signal(SIGKILL);
  const ChildProgram::End end = child.reap(take);
  if (ended && end.good()) return Unit{};
  const std::string how = !ended       ? "did not end in time and was killed"
                          : end.killed ? fmt::format("was killed by signal {}", end.status)
                                       : fmt::format("ended with {}", end.status);
  const std::string line = said.last();
  return Error{ended ? Errc::Io : Errc::Timeout, line.empty() ? how : how + ": " + line};
}

}  // namespace train
