#include "daemon/server/health_port.h"

namespace train {
namespace {

constexpr HttpLimits kLimits{.header_bytes = 1024,
                             .body_bytes = 0,
                             .connections = 16,
                             .request = seconds(5),
                             .idle = seconds(15),
                             .write = seconds(5)};

HttpAnswer text_answer(int status, std::string text) {
  return {.response = {status, "text/plain; charset=utf-8", std::move(text), {}}};
}

}  // namespace

std::string not_ready_because(const NodeCounts& counts) {
  if (counts.draining) return "draining";
  return counts.adopting ? "looking for supervisors" : "";
}

Result<std::unique_ptr<HealthPort>> HealthPort::open(asio::any_io_executor executor, Scope& scope,
                                                     const std::string& address, Counts counts) {
  TRY(const Endpoint endpoint, parse_endpoint(address));
  std::unique_ptr<HealthPort> port(new HealthPort(std::move(counts)));
  const HttpHandler handler = [raw =
                                   port.get()](HttpRequest request) -> asio::awaitable<HttpAnswer> {
    co_return raw->answer(request);
  };
  TRY(port->server_,
      HttpServer::listen(executor, {.endpoint = endpoint, .tls = {}, .limits = kLimits}, handler));
  scope.spawn("health", port->server_->run());
  return port;
}

// That the event loop answers at all shows that it is healthy.
HttpAnswer HealthPort::answer(const HttpRequest& request) const {
  if (request.method != HttpMethod::Get) return text_answer(405, "use GET\n");
  const auto& path = request.target.path;
  const bool known = path.size() == 2 && path[0] == "-";
  if (known && path[1] == "healthy") return text_answer(200, "ok\n");
  if (!known || path[1] != "ready") return text_answer(404, "there is /-/healthy and /-/ready\n");
  const std::string why = not_ready_because(counts_());
  return why.empty() ? text_answer(200, "ready\n") : text_answer(503, why + "\n");
}

}  // namespace train
