// Makes the connections of one node's link: to an address, or to what ssh joins us to.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/time.h"
#include "lib/net/connection.h"
#include "lib/net/endpoint.h"
#include "lib/net/task.h"

namespace train {

/// A connection, before its handshake.
struct Dialled {
  std::unique_ptr<Connection> connection;
  std::string reached_at;  // the node's numeric address, as far as the connection shows it
};

class Dialler {
 public:
  virtual ~Dialler() = default;
  /// Return the node as the job names it: "gpu-1:7070", "ssh:user@gpu-1".
  virtual std::string text() const = 0;
  /// Return whether only a node on this machine, or behind a tunnel, can be there.
  virtual bool is_loopback() const = 0;
  /// Connect within `limit`, or within the time that this kind of connection needs. Timeout if the
  /// machine did not answer. One call at a time.
  virtual Task<Dialled> dial(asio::any_io_executor executor, Duration limit) = 0;
  /// End what a dial() that has not come to its end has started: this process is about to exit.
  virtual void give_up() {}
  /// Return whether the last dial() failed in a way that trying again does not mend.
  virtual bool failed_for_good() const { return false; }
  /// Return how long to wait at least before the next dial().
  virtual Duration pause() const { return {}; }
  /// Return why the connection of the last dial() has ended, `error`, in better words if there are.
  virtual Error explain(Error error) const { return error; }
};

/// Dials an address over TCP, or a Unix socket.
class EndpointDialler final : public Dialler {
 public:
  explicit EndpointDialler(Endpoint endpoint) : endpoint_(std::move(endpoint)) {}
  std::string text() const override { return endpoint_.text(); }
  bool is_loopback() const override { return endpoint_.is_loopback(); }
  Task<Dialled> dial(asio::any_io_executor executor, Duration limit) override;

 private:
  Endpoint endpoint_;
};

class SshLogins;

/// Makes the diallers of a run's nodes, which share what they need.
class DiallerMaker {
 public:
  /// `tries`: how often to try a host for ssh that has never answered, before that is an error.
  explicit DiallerMaker(SshConfig ssh, int tries = 3);
  /// Return one for a node as cluster.nodes has it, which has been checked.
  std::unique_ptr<Dialler> make(const std::string& node) const;

 private:
  SshConfig ssh_;
  std::shared_ptr<SshLogins> logins_;
};

/// Return one for each of cluster.nodes.
std::vector<std::unique_ptr<Dialler>> diallers_of(const ClusterConfig& cluster, int tries = 3);

}  // namespace train
