// The traind that train-run starts for itself when no cluster is named: its own session, a Unix
// socket in a short folder (of $XDG_RUNTIME_DIR, or /tmp), a spool folder for what may be large (of
// $TMPDIR, or /var/tmp), gone with its last run. Started again when it dies; it finds its
// supervisors by the same folders. A variable's folder is used where nobody else can exchange what
// we make in it.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/net/endpoint.h"

namespace train {

class PrivateDaemon {
 public:
  /// Names only, and by chance; nothing is started.
  PrivateDaemon();
  /// The one that an earlier launcher of the run left behind with its workers; `note` is
  /// remember()'s file. It may have ended() meanwhile: start() it again then, it finds its
  /// supervisors. None where its folder is gone.
  static std::optional<PrivateDaemon> find(const std::string& note);
  /// The one of a runtime folder, as find() finds it.
  static std::optional<PrivateDaemon> at(const std::string& runtime_dir);
  /// Remove the spool of one whose runtime folder is gone, with a restart of the machine say:
  /// nobody else knows of it. `note` is remember()'s file.
  static void clean_up_lost(const std::string& note);
  /// Leave word for a later launcher where the daemon that was started is. Not synced: after a
  /// power cut it is not there either.
  void remember(const std::string& note) const;

  Result<Unit> start();
  /// Whether its process has ended (it is reaped then, when it is our child).
  bool ended();
  /// How many times in a row start() has failed, or the one that it made has exited with an error.
  int failures() const { return failures_; }
  /// Why it could not start: start()'s error, or the last in its log. Its message is "" where there
  /// is none.
  Error last_error() const;
  Endpoint endpoint() const { return Endpoint::unix_socket(runtime_dir_ + "/traind.sock"); }
  const std::string& runtime_dir() const { return runtime_dir_; }
  const std::string& spool_dir() const { return spool_dir_; }  // "" before start()
  pid_t pid() const { return pid_; }
  /// End the one that start() made, before any launcher has called it: the run is not to be. One
  /// that was found is left alone.
  void stop();
  /// Whether its folder has the socket of a supervisor, which may be alive.
  bool has_supervisors() const;
  /// Remove its folders, once the daemon has left.
  void clean_up();

 private:
  Result<Unit> spawn();
  Result<Unit> make_spool();

  std::string runtime_dir_, spool_dir_;
  pid_t pid_ = -1;
  bool made_ = false;   // its folder, by us or by an earlier launcher
  bool found_ = false;  // another process's child
  int failures_ = 0;
  std::optional<Error> not_started_;
};

/// traind: $TRAINRUN_TRAIND, beside this program, or in PATH's sbin and bin.
Result<std::string> find_traind();

}  // namespace train
