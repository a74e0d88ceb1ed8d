// The supervisor's side of its workers: a Unix socket to which each worker's SDK connects once.
// Reads frames and hands them on with the rank that sent them; what they mean is the supervisor's
// business. A rank has one connection at a time. The port refuses a process of another user, and a
// second process of a rank whose first is still connected.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "lib/net/connection.h"
#include "lib/net/listener.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/task.h"
#include "lib/wire/worker_messages.h"

namespace train {

class WorkerPort {
 public:
  struct Handlers {
    /// Returns the answer to a process that connects with `hello`, or why it is refused (a rank
    /// that is not here, another attempt). Answers a standby process once it has a rank.
    std::function<Task<Welcome>(const WorkerHello& hello)> welcome;
    /// Returns the descriptor of the page in which the program is to mark its progress; it goes
    /// with the welcome. −1: there is none.
    std::function<int(Rank rank)> progress_page;
    std::function<void(Rank rank, const WorkerHello& hello)> joined;
    /// An error ends the connection; the worker is told.
    std::function<Result<Unit>(Rank rank, Frame frame)> received;
    std::function<void(Rank rank)> closed;
    /// The same for ingest workers (WorkerHello::ingest), which have names and no ranks.
    std::function<Result<Welcome>(const WorkerHello& hello)> welcome_ingest;
    std::function<Result<Unit>(const std::string& name, const Frame& frame)> received_ingest;
  };

  static Result<std::unique_ptr<WorkerPort>> open(asio::any_io_executor executor,
                                                  const std::string& path, Attempt attempt,
                                                  Handlers handlers);
  ~WorkerPort();

  void send(Rank rank, const Frame& frame);
  /// Close the connection of a rank, if it has one.
  void drop(Rank rank);
  /// Send to all ranks.
  void send_to_all(const Frame& frame);
  void send_to_ingest(const std::string& name, const Frame& frame);
  bool connected(Rank rank) const { return connections_.count(rank) != 0; }
  /// Stop accepting, close all connections, and wait for the flows.
  asio::awaitable<void> close();

 private:
  WorkerPort(asio::any_io_executor executor, std::unique_ptr<Listener> listener, Attempt attempt,
             Handlers handlers);
  asio::awaitable<void> accept_loop();
  asio::awaitable<void> refuse(Connection& connection, const Error& why) const;
  asio::awaitable<void> serve(std::unique_ptr<Connection> connection);
  asio::awaitable<void> serve_ingest(Connection& connection, WorkerHello hello);
  Task<Welcome> welcome(const Connection& connection, const WorkerHello& hello);
  void send(Connection& connection, Rank rank, const Frame& frame);

  std::unique_ptr<Listener> listener_;
  Attempt attempt_;
  Handlers handlers_;
  std::map<Rank, Connection*> connections_;    // owned by their serve()
  std::map<std::string, Connection*> ingest_;  // likewise, by name
  Notifier left_;                              // a connection has ended
  Scope scope_;
};

}  // namespace train
