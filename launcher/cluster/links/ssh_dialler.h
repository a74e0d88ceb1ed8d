// Joins a link to the traind of our user on a host: ssh runs `traind dial-stdio` there, and its
// standard input and output are the connection. There is no port and no token: sshd knows who we
// are. When we close the connection or die, ssh and dial-stdio end; traind and the workers stay,
// and the next login finds them.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

#include "launcher/cluster/links/dialler.h"
#include "launcher/core/ssh_hosts.h"
#include "lib/base/file_descriptor.h"
#include "lib/net/notifier.h"

namespace train {

/// Lets so many logins of one launcher go on at a time: sshd, which may be one for all of them (a
/// jump host), refuses some of more than ten that have not finished (MaxStartups). Logins to hosts
/// that have answered before do not wait behind others: who is silent is told by the clock.
class SshLogins {
 public:
  static constexpr int kAtOnce = 8, kAgainAtOnce = 128;

  /// `tries_max`: until a host that has never answered counts as away.
  explicit SshLogins(int tries_max) : tries(tries_max) {}
  const int tries;
  /// `again`: the host has answered before.
  Task<Unit> begin(asio::any_io_executor executor, bool again);
  void end(bool again);

 private:
  int busy_ = 0, busy_again_ = 0;
  std::unique_ptr<Notifier> freed_;
};

/// A process ssh of ours. It is killed and reaped at the end, with the proxies that it has started.
class SshProcess {
 public:
  /// Start it with one socket as its standard input and output, whose other end is `socket`.
  static Result<SshProcess> start(const SshHost& host, const SshConfig& config);
  SshProcess(SshProcess&& other) noexcept;
  SshProcess& operator=(SshProcess&& other) noexcept;
  ~SshProcess() { kill(); }

  FileDescriptor socket;
  /// Return what it has written to stderr so far; not all if it is long.
  const std::string& said();
  /// Return its exit code if it has exited by itself.
  std::optional<int> ended();
  void kill();

 private:
  SshProcess() = default;

  pid_t pid_ = -1;
  std::optional<int> code_;
  FileDescriptor errors_;
  std::string said_;
};

class SshDialler final : public Dialler {
 public:
  /// `text`: the node as the job names it. The references' values are copied.
  SshDialler(SshHost host, std::string text, SshConfig config, std::shared_ptr<SshLogins> logins);

  std::string text() const override { return text_; }
  bool is_loopback() const override { return false; }
  Task<Dialled> dial(asio::any_io_executor executor, Duration limit) override;
  void give_up() override;
  bool failed_for_good() const override { return failed_for_good_; }
  Duration pause() const override;
  Error explain(Error error) const override;

 private:
  Task<Dialled> log_in(asio::any_io_executor executor, Duration limit);
  asio::awaitable<Error> failure(SshProcess& ssh, Error why);

  const SshHost host_;
  const std::string text_;
  const SshConfig config_;
  const std::shared_ptr<SshLogins> logins_;
  mutable std::optional<SshProcess> ssh_;  // of the connection
  SshProcess* login_ = nullptr;            // that is under way
  bool ever_ = false;                      // it has answered once
  int failures_ = 0;                       // in a row
  bool failed_for_good_ = false;
};

}  // namespace train
