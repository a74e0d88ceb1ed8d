// An HTTP/1.1 server for a few clients: pages, JSON, server-sent events, Prometheus. Only server.cc
// uses Beast. One thread, that of the executor; handlers that block run their work elsewhere
// (lib/net/blocking.h).
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lib/base/time.h"
#include "lib/http/request.h"
#include "lib/http/response.h"
#include "lib/net/endpoint.h"
#include "lib/net/task.h"

namespace train {

/// What a client may take. Whoever needs more gets an answer that says so, or is cut off.
struct HttpLimits {
  std::size_t header_bytes = 16u << 10;
  std::size_t body_bytes = 64u << 10;
  std::size_t connections = 128;
  Duration request = seconds(10);  // from the first byte to the last; also the TLS handshake
  Duration idle = seconds(75);     // between requests
  Duration write = seconds(30);    // of an answer, or of a piece of a stream
};

struct HttpTlsFiles {
  std::string certificate, key;  // PEM; the certificate with its chain
};

using HttpHandler = std::function<asio::awaitable<HttpAnswer>(HttpRequest)>;

class HttpServer {
 public:
  struct Impl;

  struct Options {
    Endpoint endpoint = {};
    std::optional<HttpTlsFiles> tls = {};
    HttpLimits limits = {};
  };
  /// Bind and listen. Errors: the address is taken or not ours, or what is wrong with the files.
  static Result<std::unique_ptr<HttpServer>> listen(asio::any_io_executor executor,
                                                    const Options& options, HttpHandler handler);
  ~HttpServer();
  explicit HttpServer(std::unique_ptr<Impl> impl);

  /// Serve until the flow is cancelled; then cancel all connections, and wait for their ends.
  asio::awaitable<void> run();

  Endpoint local_endpoint() const;  // with the port that the system picked

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace train
