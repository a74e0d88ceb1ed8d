#include "lib/http/server.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/impl/src.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>

#include "lib/net/resolve.h"
#include "lib/net/scope.h"
#include "lib/net/secret_file.h"
#include "lib/net/within.h"

namespace train {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;
namespace ssl = boost::asio::ssl;
using asio::ip::tcp;
using Parser = http::request_parser<http::string_body>;
constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr auto kFullTablePause = milliseconds(50);
constexpr std::size_t kTlsFileBytesMax = 1u << 20;

struct Refusal {
  int status;
  Error error;
};

/// Return the answer to bytes that are no request, or nothing if the client has left.
std::optional<Refusal> refusal_of(beast::error_code failed) {
  if (failed == http::error::header_limit)
    return Refusal{431, {Errc::ResourceExhausted, "the request's header is too long"}};
  if (failed == http::error::body_limit)
    return Refusal{413, {Errc::ResourceExhausted, "the request's body is too long"}};
  if (failed.category() == http::make_error_code(http::error::bad_method).category() &&
      failed != http::error::end_of_stream && failed != http::error::partial_message)
    return Refusal{400, {Errc::InvalidArgument, "this is no HTTP request: " + failed.message()}};
  return std::nullopt;
}

std::string header(const Parser& parser, http::field field) {
  const auto found = parser.get().find(field);
  return found == parser.get().end() ? std::string() : std::string(found->value());
}

std::string header(const Parser& parser, std::string_view name) {
  const auto found = parser.get().find(beast::string_view(name.data(), name.size()));
  return found == parser.get().end() ? std::string() : std::string(found->value());
}

HttpMethod method_of(http::verb verb) {
  if (verb == http::verb::get) return HttpMethod::Get;
  if (verb == http::verb::head) return HttpMethod::Head;
  if (verb == http::verb::post) return HttpMethod::Post;
  if (verb == http::verb::put) return HttpMethod::Put;
  if (verb == http::verb::delete_) return HttpMethod::Delete;
  return HttpMethod::Other;
}

Result<HttpRequest> request_of(Parser& parser) {
  const auto target = parser.get().target();
  HttpRequest request;
  request.method = method_of(parser.get().method());
  TRY(request.target, parse_target(std::string_view(target.data(), target.size())));
  request.host = header(parser, http::field::host);
  request.host_repeated = parser.get().count(http::field::host) != 1;
  request.origin = header(parser, http::field::origin);
  request.authorization = header(parser, http::field::authorization);
  request.cookie = header(parser, http::field::cookie);
  request.content_type = header(parser, http::field::content_type);
  request.if_none_match = header(parser, http::field::if_none_match);
  request.last_event_id = header(parser, "Last-Event-ID");
  request.fetch_site = header(parser, "Sec-Fetch-Site");
  request.body = std::move(parser.get().body());
  return request;
}

template <class Message>
void set_headers(Message& message, const HttpResponse& response) {
  message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : security_headers()) message.set(name, value);
  for (const auto& [name, value] : response.headers) message.set(name, value);
  if (message.find(http::field::cache_control) == message.end())
    message.set(http::field::cache_control, "no-store");
}

/// One client. Stream is a beast::tcp_stream, or TLS over one.
template <class Stream>
class HttpConnection {
 public:
  HttpConnection(Stream stream, const HttpLimits& limits, const HttpHandler& handler)
      : stream_(std::move(stream)), limits_(limits), handler_(handler) {}

  asio::awaitable<void> serve() {
    for (bool first = true;; first = false) {
      Parser parser;
      parser.header_limit(static_cast<std::uint32_t>(limits_.header_bytes));
      parser.body_limit(limits_.body_bytes);
      const beast::error_code failed = co_await receive(parser, first);
      if (failed) {
        const auto refusal = refusal_of(failed);
        if (refusal) (void)co_await send(problem(refusal->status, refusal->error), false, false);
        break;
      }
      const bool goes_on = co_await answer(parser);
      if (!goes_on) break;
    }
    co_await finish();
  }

  asio::awaitable<bool> shake_hands() requires(!std::is_same_v<Stream, beast::tcp_stream>) {
    lowest().expires_after(limits_.request);
    auto [failed] = co_await stream_.async_handshake(ssl::stream_base::server, kAwait);
    co_return !failed;
  }

 private:
  beast::tcp_stream& lowest() { return beast::get_lowest_layer(stream_); }

  /// Wait for a request; once its first byte is here, for no longer than the limit.
  asio::awaitable<beast::error_code> receive(Parser& parser, bool first) {
    if (buffer_.size() == 0) {
      lowest().expires_after(first ? limits_.request : limits_.idle);
      auto [failed, count] = co_await stream_.async_read_some(buffer_.prepare(kReadBytes), kAwait);
      if (failed) co_return beast::error_code(http::error::end_of_stream);
      buffer_.commit(count);
    }
    lowest().expires_after(limits_.request);
    auto [failed, count] = co_await http::async_read(stream_, buffer_, parser, kAwait);
    co_return failed;
  }

  asio::awaitable<bool> answer(Parser& parser) {
    const bool head = parser.get().method() == http::verb::head;
    const bool keep = parser.get().keep_alive();
    auto request = request_of(parser);
    if (request.has_error()) co_return co_await send(problem(request.error()), keep, head);
    lowest().expires_never();  // the handler has its own deadlines
    HttpAnswer given = co_await handler_(std::move(*request));
    if (given.stream != nullptr && !head) {
      co_await stream_to_client(given);
      co_return false;
    }
    co_return co_await send(std::move(given.response), keep, head);
  }

  /// Return whether the connection can go on.
  asio::awaitable<bool> send(HttpResponse response, bool keep, bool head) {
    http::response<http::string_body> message{static_cast<http::status>(response.status), 11};
    set_headers(message, response);
    message.keep_alive(keep);
    message.body() = std::move(response.body);
    message.prepare_payload();
    if (head) message.body().clear();  // Content-Length stays
    http::response_serializer<http::string_body> serializer(message);
    serializer.split(head);
    lowest().expires_after(limits_.write);
    beast::error_code failed;
    if (head)
      std::tie(failed, std::ignore) =
          co_await http::async_write_header(stream_, serializer, kAwait);
    else
      std::tie(failed, std::ignore) = co_await http::async_write(stream_, serializer, kAwait);
    co_return !failed && keep;
  }

  asio::awaitable<void> stream_to_client(HttpAnswer& given) {
    http::response<http::empty_body> message{static_cast<http::status>(given.response.status), 11};
    set_headers(message, given.response);
    message.keep_alive(false);
    message.chunked(true);
    http::response_serializer<http::empty_body> serializer(message);
    lowest().expires_after(limits_.write);
    auto [failed, count] = co_await http::async_write_header(stream_, serializer, kAwait);
    while (!failed) {
      lowest().expires_never();
      const auto piece = co_await given.stream->next();
      if (piece.has_error() || piece->empty()) break;
      lowest().expires_after(limits_.write);
      auto [lost, written] =
          co_await asio::async_write(stream_, http::make_chunk(asio::buffer(*piece)), kAwait);
      failed = lost;
    }
    if (failed) co_return;
    lowest().expires_after(limits_.write);
    (void)co_await asio::async_write(stream_, http::make_chunk_last(), kAwait);
  }

  asio::awaitable<void> finish() {
    lowest().expires_after(seconds(1));
    if constexpr (!std::is_same_v<Stream, beast::tcp_stream>)
      (void)co_await stream_.async_shutdown(kAwait);
    beast::error_code ignored;
    lowest().socket().shutdown(tcp::socket::shutdown_both, ignored);
  }

  static constexpr std::size_t kReadBytes = 4096;
  Stream stream_;
  beast::flat_buffer buffer_;
  HttpLimits limits_;
  const HttpHandler& handler_;
};

Error tls_error(std::string_view file, const std::string& path, const beast::error_code& failed) {
  return Error{Errc::InvalidArgument,
               fmt::format("{} {} cannot be used: {}", file, path, failed.message()),
               "give a certificate (with its chain) and its key, both in PEM, without a password"};
}

Result<std::unique_ptr<ssl::context>> read_tls(const HttpTlsFiles& files) {
  TRY(const std::string certificate,
      read_trusted_file("--tls-cert", files.certificate, kTlsFileBytesMax));
  TRY(const SecretText key, read_secret_file("--tls-key", files.key, kTlsFileBytesMax));
  auto context = std::make_unique<ssl::context>(ssl::context::tls_server);
  beast::error_code failed;
  context->set_options(
      ssl::context::default_workarounds | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1,
      failed);
  context->set_password_callback(
      [](std::size_t, ssl::context::password_purpose) {
        return std::string();  // never ask at the terminal
      },
      failed);
  context->use_certificate_chain(asio::buffer(certificate), failed);
  if (failed) return tls_error("--tls-cert", files.certificate, failed);
  context->use_private_key(asio::buffer(key.text()), ssl::context::pem, failed);
  if (failed) return tls_error("--tls-key", files.key, failed);
  return context;
}

Result<tcp::acceptor> bind_and_listen(const asio::any_io_executor& executor,
                                      const Endpoint& endpoint) {
  if (endpoint.kind != Endpoint::Tcp)
    return Error{Errc::InvalidArgument, "a browser needs HOST:PORT, not " + endpoint.text()};
  TRY(const auto addresses, resolve_to_listen(executor, endpoint));
  std::optional<Error> why;
  for (const StreamAddress& address : addresses) {
    tcp::acceptor acceptor(executor);
    beast::error_code failed;
    tcp::endpoint local;
    local.resize(address.size());
    std::memcpy(local.data(), address.data(), address.size());
    acceptor.open(local.protocol(), failed);
    if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
    if (!failed) acceptor.bind(local, failed);
    if (!failed) acceptor.listen(tcp::acceptor::max_listen_connections, failed);
    if (!failed) return acceptor;
    if (!why)
      why = Error{failed == asio::error::address_in_use ? Errc::AlreadyExists : Errc::Unavailable,
                  fmt::format("listening on {}: {}", endpoint.text(), failed.message()),
                  "choose another one with --listen; port 0 takes any that is free"};
  }
  return std::move(*why);
}

}  // namespace

struct HttpServer::Impl {
  Impl(asio::any_io_executor on, tcp::acceptor bound, const Options& options, HttpHandler handle)
      : executor(std::move(on)),
        acceptor(std::move(bound)),
        limits(options.limits),
        handler(std::move(handle)),
        connections(executor) {}

  asio::awaitable<void> serve(tcp::socket socket) {
    if (tls == nullptr) {
      HttpConnection<beast::tcp_stream> connection(beast::tcp_stream(std::move(socket)), limits,
                                                   handler);
      co_await connection.serve();
      co_return;
    }
    using Tls = beast::ssl_stream<beast::tcp_stream>;
    HttpConnection<Tls> connection(Tls(std::move(socket), *tls), limits, handler);
    const bool agreed = co_await connection.shake_hands();
    if (agreed) co_await connection.serve();
  }

  asio::any_io_executor executor;
  tcp::acceptor acceptor;
  std::unique_ptr<ssl::context> tls;
  HttpLimits limits;
  HttpHandler handler;
  Scope connections;
};

HttpServer::HttpServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HttpServer::~HttpServer() = default;

Result<std::unique_ptr<HttpServer>> HttpServer::listen(asio::any_io_executor executor,
                                                       const Options& options,
                                                       HttpHandler handler) {
  std::unique_ptr<ssl::context> tls;
  if (options.tls) {
    TRY(tls, read_tls(*options.tls));
  }
  TRY(tcp::acceptor acceptor, bind_and_listen(executor, options.endpoint));
  auto impl = std::make_unique<Impl>(executor, std::move(acceptor), options, std::move(handler));
  impl->tls = std::move(tls);
  return std::make_unique<HttpServer>(std::move(impl));
}

asio::awaitable<void> HttpServer::run() {
  for (;;) {
    auto [failed, socket] = co_await impl_->acceptor.async_accept(kAwait);
    if (failed == asio::error::operation_aborted) break;
    if (failed) {  // the peer has left, or no descriptor is left
      const auto paused = co_await pause_for(kFullTablePause);
      if (paused.has_error()) break;
      continue;
    }
    if (impl_->connections.size() >= impl_->limits.connections) continue;  // closes it
    beast::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    impl_->connections.spawn("http client", impl_->serve(std::move(socket)));
  }
  impl_->connections.cancel();
  co_await impl_->connections.join();
}

Endpoint HttpServer::local_endpoint() const {
  beast::error_code ignored;
  const tcp::endpoint local = impl_->acceptor.local_endpoint(ignored);
  return Endpoint::tcp(local.address().to_string(), local.port());
}

}  // namespace train
