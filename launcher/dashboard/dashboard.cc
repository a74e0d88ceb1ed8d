#include "launcher/dashboard/dashboard.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "launcher/dashboard/api.h"
#include "launcher/dashboard/assets.h"
#include "launcher/dashboard/event_stream.h"
#include "lib/base/exit_code.h"
#include "lib/base/host.h"
#include "lib/base/print.h"
#include "lib/http/guard.h"
#include "lib/http/server.h"
#include "lib/net/blocking.h"
#include "lib/net/scope.h"
#include "lib/net/token.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr std::size_t kReaders = 4;  // threads that read folders
constexpr auto kFetchEvery = seconds(10);
constexpr std::string_view kText = "text/plain; charset=utf-8";

/// Return the endpoint as a browser names it: this machine, if it listens on all addresses.
Endpoint shown(Endpoint endpoint) {
  const std::string& host = endpoint.host_or_path;
  if (host.empty() || host == "0.0.0.0" || host == "::") endpoint.host_or_path = host_name();
  return endpoint;
}

/// Return the address to open; with a token, the link that logs in.
std::string link_of(const Endpoint& endpoint, bool tls, const std::string& token) {
  return fmt::format("{}://{}/{}", tls ? "https" : "http", endpoint.text(),
                     token.empty() ? "" : "?token=" + token);
}

Result<std::string> token_of(const DashboardOptions& options) {
  if (options.token_file.empty()) return std::string(Token::generate().bytes());
  TRY(const Token token, read_token_file(options.token_file));
  const std::string text(token.bytes());
  const bool plain = std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return c > 0x20 && c < 0x7f && c != '"' && c != ';' && c != ',' && c != '\\' && c != '&' &&
           c != '%' && c != '+' && c != '#';
  });
  if (plain) return text;
  return Error{Errc::InvalidArgument,
               options.token_file + " holds characters that a cookie cannot have",
               "make a new one with `traind token FILE`"};
}

/// Check what the address and the options allow together.
Result<Endpoint> endpoint_of(const DashboardOptions& options) {
  TRY(const Endpoint endpoint, parse_endpoint(options.listen));
  if (options.tls_certificate.empty() != options.tls_key.empty())
    return Error{Errc::InvalidArgument, "--tls-cert and --tls-key belong together"};
  if (endpoint.is_loopback() || !options.tls_certificate.empty()) return endpoint;
  return Error{
      Errc::InvalidArgument,
      fmt::format("{} can be reached from other machines, which needs TLS", endpoint.text()),
      "give --tls-cert and --tls-key, or listen on 127.0.0.1 and forward the port: ssh -L "
      "7080:127.0.0.1:7080 HOST"};
}

/// run_on() copies its result, so a stream is shared on its way.
class SharedStream final : public HttpStream {
 public:
  explicit SharedStream(std::shared_ptr<EventStream> stream) : stream_(std::move(stream)) {}
  Task<std::string> next() override { return stream_->next(); }

 private:
  std::shared_ptr<EventStream> stream_;
};

class Dashboard {
 public:
  explicit Dashboard(const DashboardOptions& options) : catalog_(options.places) {}

  Result<Unit> open(const DashboardOptions& options) {
    TRY(rules_.token, token_of(options));
    TRY(const Endpoint endpoint, endpoint_of(options));
    HttpServer::Options server{.endpoint = endpoint};
    rules_.secure = !options.tls_certificate.empty();
    if (rules_.secure) server.tls = HttpTlsFiles{options.tls_certificate, options.tls_key};
    TRY(server_, HttpServer::listen(context_.get_executor(), server,
                                    [this](HttpRequest request) { return answer(request); }));
    const Endpoint bound = server_->local_endpoint();
    rules_.hosts = {"localhost", "127.0.0.1", "::1", host_name_of(shown(endpoint).text())};
    for (const std::string& host : options.hosts) rules_.hosts.push_back(host_name_of(host));
    rules_.cookie = fmt::format("trainrun_dashboard_{}", bound.port);
    rules_.open_read = options.open_read;
    rules_.allow_actions = options.allow_actions;
    api_.emplace(catalog_, tasks_,
                 ApiFacts{.version = options.version,
                          .actions = options.allow_actions,
                          .address = shown(bound).text(),
                          .node_metrics_port = options.node_metrics_port});
    print_out("dashboard: {}\n",
              link_of(shown(bound), rules_.secure, options.token_file.empty() ? rules_.token : ""));
    flush_out();
    return Unit{};
  }

  void run() {
    scope_.spawn("http server", server_->run());
    scope_.spawn("fetch", fetch_runs());
    scope_.spawn("signals", wait_for_signal());
    context_.run();
    readers_.join();
  }

 private:
  asio::awaitable<void> wait_for_signal() {
    asio::signal_set signals(context_, SIGINT, SIGTERM);
    (void)co_await signals.async_wait(asio::as_tuple(asio::use_awaitable));
    scope_.cancel();
  }

  asio::awaitable<void> fetch_runs() {
    for (;;) {
      const auto fetched = co_await run_on<Unit>(readers_, [this]() -> Result<Unit> {
        catalog_.fetch();
        return Unit{};
      });
      if (fetched.has_error()) co_return;
      ready_ = true;
      const auto paused = co_await pause_for(kFetchEvery);
      if (paused.has_error()) co_return;
    }
  }

  asio::awaitable<HttpAnswer> answer(HttpRequest request) {
    if (auto login = take_token(rules_, request)) {
      if (login->status == 401) *login = login_page();
      co_return HttpAnswer{std::move(*login)};
    }
    const auto& path = request.target.path;
    const bool api = !path.empty() && (path[0] == "api" || path[0] == "metrics");
    if (auto refusal = refuse_request(rules_, request, !api))
      co_return HttpAnswer{std::move(*refusal)};
    if (!api) co_return HttpAnswer{open_answer(request)};
    if (path == std::vector<std::string>{"api", "v1", "stream"}) co_return co_await stream(request);
    const auto work = [this, &request]() -> Result<HttpResponse> { return api_->answer(request); };
    auto response = co_await run_on<HttpResponse>(readers_, work);
    co_return HttpAnswer{response ? std::move(*response) : problem(response.error())};
  }

  asio::awaitable<HttpAnswer> stream(const HttpRequest& request) {
    using Opened = std::shared_ptr<EventStream>;
    const auto work = [this, &request]() -> Result<Opened> {
      TRY(auto opened, EventStream::open(readers_, catalog_, tasks_, request));
      return Opened(std::move(opened));
    };
    auto opened = co_await run_on<Opened>(readers_, work);
    if (opened.has_error()) co_return HttpAnswer{problem(opened.error())};
    HttpAnswer answer{.response = {.content_type = "text/event-stream"}};
    answer.stream = std::make_unique<SharedStream>(std::move(*opened));
    co_return answer;
  }

  /// Answer a link with a wrong token: the page says so, and asks for the token.
  static HttpResponse login_page() {
    const Asset* page = find_asset("index.html");
    return {.status = 401,
            .content_type = content_type_of(page->path),
            .body = std::string(page->bytes),
            .headers = {{"Cache-Control", "no-store"}}};
  }

  /// Answer what needs no token: health, and the pages' own files.
  HttpResponse open_answer(const HttpRequest& request) const {
    std::string path;
    for (const std::string& part : request.target.path) path += (path.empty() ? "" : "/") + part;
    if (path == "healthz") return {.content_type = std::string(kText), .body = "ok\n"};
    if (path == "readyz")
      return {.status = ready_ ? 200 : 503,
              .content_type = std::string(kText),
              .body = ready_ ? "ok\n" : "reading the runs\n"};
    if (request.method != HttpMethod::Get && request.method != HttpMethod::Head)
      return problem(405, {Errc::InvalidArgument, "a page can only be read"});
    const Asset* asset = find_asset(path.empty() ? "index.html" : path);
    if (asset == nullptr) return problem({Errc::NotFound, "no such page"});
    const std::string etag = etag_of(*asset);
    HttpResponse response{.content_type = content_type_of(asset->path),
                          .headers = {{"ETag", etag}, {"Cache-Control", "no-cache"}}};
    if (etag_matches(request.if_none_match, etag))
      response.status = 304;
    else
      response.body = asset->bytes;
    return response;
  }

  asio::io_context context_{1};
  asio::thread_pool readers_{kReaders};
  RunCatalog catalog_;
  RunTasks tasks_;
  std::optional<Api> api_;
  GuardRules rules_;
  std::unique_ptr<HttpServer> server_;
  Scope scope_{context_.get_executor()};
  bool ready_ = false;
};

}  // namespace

int run_dashboard(const DashboardOptions& options) {
  Dashboard dashboard(options);
  if (const auto opened = dashboard.open(options); opened.has_error()) {
    print_error("train-run", opened.error());
    if (opened.error().code == Errc::InvalidArgument) return exit_code::kUsage;
    return opened.error().code == Errc::Permission ? exit_code::kPermission
                                                   : exit_code::kUnavailable;
  }
  dashboard.run();
  return 0;
}

}  // namespace train
