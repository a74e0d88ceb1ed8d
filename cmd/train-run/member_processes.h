// The processes of a member: the traind of its node, which is started again if it is killed, and,
// of one member, the launcher.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/storage/private_roots.h"

namespace train {

class MemberProcess {
 public:
  struct How {
    std::vector<std::string> words;      // the program first
    std::vector<std::string> variables;  // NAME=VALUE
    int input = -1, output = -1;         // −1: ours
    bool own_session = false;            // else a group of processes of its own
  };
  static Result<MemberProcess> start(How how);

  /// What to poll for reading: it is readable once the process has ended.
  int fd() const { return process_.get(); }
  pid_t pid() const { return pid_; }
  void send_signal(int number) const;
  struct End {
    int code = 0;
    int signal = 0;  // that killed it
  };
  /// Return how it has ended; nothing while it runs.
  const std::optional<End>& ended();

 private:
  pid_t pid_ = -1;
  FileDescriptor process_;
  std::optional<End> end_;
};

class MemberTraind {
 public:
  /// `words`: the program and its options, but for its folders, which this makes.
  static Result<MemberTraind> start(std::vector<std::string> words,
                                    std::vector<std::string> variables);

  MemberProcess& process() { return process_; }
  /// What to poll until it is_ready().
  int output() const { return output_.get(); }
  /// Return whether it has said that it listens, as far as that was read.
  bool is_ready();
  /// Start it again, after it was killed: it finds its supervisors. An error after some times.
  Result<Unit> start_again();
  /// Let it stop its workers and leave.
  void let_go() { leash_.reset(); }
  /// Remove its folders. Call it once it has ended.
  void clean_up();

 private:
  MemberTraind() = default;
  Result<Unit> spawn();

  std::vector<std::string> words_, variables_;
  PrivateFolders folders_;
  MemberProcess process_;
  FileDescriptor leash_, output_;
  std::string said_;
  bool ready_ = false;
  int restarts_ = 0;
};

}  // namespace train
