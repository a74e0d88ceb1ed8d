// traind's port for probes of Kubernetes and load balancers: GET /-/healthy, /-/ready. Whoever
// reaches it may ask. It tells nothing else, and takes little: short requests, few connections.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/core/node_agent.h"
#include "lib/http/server.h"
#include "lib/net/scope.h"

namespace train {

/// Return why the node takes no workers now: "draining"; "" if it does. Pure.
std::string not_ready_because(const NodeCounts& counts);

class HealthPort {
 public:
  using Counts = std::function<NodeCounts()>;  // called on the executor's thread

  /// Listen at HOST:PORT. Errors: as HttpServer::listen.
  static Result<std::unique_ptr<HealthPort>> open(asio::any_io_executor executor, Scope& scope,
                                                  const std::string& address, Counts counts);

  Endpoint local_endpoint() const { return server_->local_endpoint(); }

 private:
  explicit HealthPort(Counts counts) : counts_(std::move(counts)) {}
  HttpAnswer answer(const HttpRequest& request) const;

  const Counts counts_;
  std::unique_ptr<HttpServer> server_;
};

}  // namespace train
