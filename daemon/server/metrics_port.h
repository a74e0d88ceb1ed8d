// traind's port for Prometheus: GET /metrics, /healthz, /readyz. Whoever reaches it may read it, so
// it names no run and no user.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/core/node_agent.h"
#include "lib/http/server.h"
#include "lib/net/scope.h"

namespace train {

class MetricsPort {
 public:
  struct Node {
    std::string name, build, spool_dir, data_dir;
    std::function<NodeCounts()> counts;  // called on the executor's thread
  };
  /// Listen at HOST:PORT. Errors: as HttpServer::listen.
  static Result<std::unique_ptr<MetricsPort>> open(asio::any_io_executor executor, Scope& scope,
                                                   const std::string& address, Node node);

  Endpoint local_endpoint() const { return server_->local_endpoint(); }

 private:
  explicit MetricsPort(Node node) : node_(std::move(node)) {}
  asio::awaitable<HttpAnswer> answer(HttpRequest request);

  const Node node_;
  bool reading_ = false;  // what the machine says; if that hangs, its metrics are missing
  std::unique_ptr<HttpServer> server_;
};

}  // namespace train
