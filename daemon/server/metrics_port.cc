#include "daemon/server/metrics_port.h"

#include "daemon/server/health_port.h"
#include "daemon/server/node_metrics.h"
#include "lib/net/blocking.h"
#include "lib/observe/prometheus_text.h"

namespace train {
namespace {

HttpAnswer text_answer(int status, std::string text) {
  return {.response = {status, kPrometheusContentType, std::move(text), {}}};
}

}  // namespace

Result<std::unique_ptr<MetricsPort>> MetricsPort::open(asio::any_io_executor executor, Scope& scope,
                                                       const std::string& address, Node node) {
  TRY(const Endpoint endpoint, parse_endpoint(address));
  std::unique_ptr<MetricsPort> port(new MetricsPort(std::move(node)));
  HttpServer::Options options;
  options.endpoint = endpoint;
  const HttpHandler handler = [raw = port.get()](HttpRequest request) {
    return raw->answer(std::move(request));
  };
  TRY(port->server_, HttpServer::listen(executor, options, handler));
  scope.spawn("metrics", port->server_->run());
  return port;
}

asio::awaitable<HttpAnswer> MetricsPort::answer(HttpRequest request) {
  const auto& path = request.target.path;
  const bool reads = request.method == HttpMethod::Get || request.method == HttpMethod::Head;
  if (!reads) co_return text_answer(405, "use GET\n");
  const NodeCounts counts = node_.counts();
  if (path.size() == 1 && path[0] == "healthz") co_return text_answer(200, "ok\n");
  if (path.size() == 1 && path[0] == "readyz") {
    const std::string why = not_ready_because(counts);
    co_return why.empty() ? text_answer(200, "ready\n") : text_answer(503, why + "\n");
  }
  if (path.size() != 1 || path[0] != "metrics")
    co_return text_answer(404, "there is /metrics, /healthz and /readyz\n");
  NodeVitals vitals;
  if (!std::exchange(reading_, true)) {  // on a thread of its own, one at a time: a disk may hang
    auto reading = run_unjoined<NodeVitals>([spool = node_.spool_dir, data = node_.data_dir] {
      return Result<NodeVitals>(read_node_vitals(spool, data));
    });
    auto read = co_await std::move(reading);
    reading_ = false;
    if (read) vitals = std::move(*read);
  }
  co_return text_answer(200, node_metrics_text(counts, vitals, node_.name, node_.build));
}

}  // namespace train
