// The one table of train-run's exit codes. --help prints it, and a test checks README.md and the
// man page against it. From 64 on, codes are those of sysexits.h where one fits; 3 to 63 are left
// to the user's workers, and 128 and above stand for signals.
#pragma once

#include <array>
#include <string_view>

namespace train::exit_code {

inline constexpr int kOk = 0, kFailed = 1, kUsage = 2, kDamaged = 65, kNotFound = 66,
                     kUnavailable = 69, kBug = 70, kTaken = 73, kIo = 74, kRequeue = 75,
                     kProtocol = 76, kPermission = 77, kBadSpec = 78, kCannotExecute = 126,
                     kNoSuchCommand = 127, kInterrupted = 130;

struct Row {
  int code;
  std::string_view meaning;  // in a few words; README.md explains more
};
inline constexpr std::array kTable{
    Row{kOk, "all ranks finished"},
    Row{kFailed, "a rank exited with 1, 2 or 64 and more, or a node was lost"},
    Row{kUsage, "the command line is wrong"},
    Row{kDamaged, "a checkpoint is damaged or incomplete"},
    Row{kNotFound, "there is no such run or checkpoint"},
    Row{kUnavailable, "no usable cluster; for attach and stop: the launcher died"},
    Row{kBug, "a bug of train-run"},
    Row{kTaken, "the run has finished, or another train-run has it"},
    Row{kIo, "a file, or stdout, cannot be read or written"},
    Row{kRequeue, "stopped by SIGTERM, SIGHUP or SIGUSR1: please requeue"},
    Row{kProtocol, "a daemon speaks another protocol"},
    Row{kPermission, "no permission, or the token or certificate is not the cluster's"},
    Row{kBadSpec, "the spec is wrong"},
    Row{kCannotExecute, "the command cannot be executed"},
    Row{kNoSuchCommand, "the command is not found"},
    Row{kInterrupted, "stopped by Ctrl-C or train-run stop"},
};

}  // namespace train::exit_code
