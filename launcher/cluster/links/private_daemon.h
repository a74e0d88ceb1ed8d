// The traind that train-run starts for itself if no cluster is named. It has its own session, a
// Unix socket in a short folder (in $XDG_RUNTIME_DIR or /tmp), and a spool folder for what may be
// large (in $TMPDIR or /var/tmp). It ends with its last run. If it dies, it is started again, and
// finds its supervisors through the same folders. A variable's folder is used only if nobody else
// can replace what we make in it.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/net/endpoint.h"

namespace train {

class PrivateDaemon {
 public:
  /// Choose random names for its folders, and start nothing.
  PrivateDaemon();
  /// Return the daemon that an earlier launcher of the run left behind with its workers; none if
  /// its folder is gone. `note`: the file that remember() wrote. The daemon may have ended() in the
  /// meantime. If so, start() it again, and it finds its supervisors.
  static std::optional<PrivateDaemon> find(const std::string& note);
  /// Return the daemon of a runtime folder, as find() does.
  static std::optional<PrivateDaemon> at(const std::string& runtime_dir);
  /// Remove the spool of a daemon whose runtime folder is gone, for example after a reboot: nobody
  /// else knows about it. `note`: the file that remember() wrote.
  static void clean_up_lost(const std::string& note);
  /// Record in `note`, for a later launcher, where the daemon is. The file is not synced: after a
  /// power cut, the daemon is gone too.
  void remember(const std::string& note) const;

  /// Have the daemon that start() starts stay while this process lives, also while it has no run.
  void stay_while_we_live() { stays_ = true; }
  /// Let it leave with its last run, or at once.
  void leave_with_its_runs() { hold_.reset(); }

  Result<Unit> start();
  /// Return whether its process has ended, and reap it if it is our child.
  bool ended();
  /// Return how many times in a row start() has failed, or the daemon that it started has exited
  /// with an error.
  int failures() const { return failures_; }
  /// Return why it could not start: start()'s error, or the last error in its log. The message is
  /// "" if there is none.
  Error last_error() const;
  Endpoint endpoint() const { return Endpoint::unix_socket(runtime_dir_ + "/traind.sock"); }
  const std::string& runtime_dir() const { return runtime_dir_; }
  const std::string& spool_dir() const { return spool_dir_; }  // "" before start()
  pid_t pid() const { return pid_; }
  /// End the daemon that start() started, before any launcher has called it, because the run will
  /// not happen. Leave alone a daemon that was found.
  void stop();
  /// Return whether its folder has the socket of a supervisor, which may be alive.
  bool has_supervisors() const;
  /// Remove its folders, once the daemon has left.
  void clean_up();

 private:
  Result<Unit> spawn();
  Result<Unit> make_folders();
  Result<Unit> make_spool();

  std::string runtime_dir_, spool_dir_;
  pid_t pid_ = -1;
  bool made_ = false;   // its folder, whether by us or by an earlier launcher
  bool found_ = false;  // another process's child
  bool stays_ = false;
  std::shared_ptr<FileDescriptor> hold_;  // its standard input; copies of this object share it
  int failures_ = 0;
  std::optional<Error> not_started_;
};

/// Return the path of traind: $TRAINRUN_TRAIND, beside this program, or in PATH's sbin and bin.
Result<std::string> find_traind();

}  // namespace train
