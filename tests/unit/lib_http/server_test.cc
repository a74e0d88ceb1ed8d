// The server over real sockets. Its clients are bare descriptors, since they misbehave.
#include "lib/http/server.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Gives its pieces, then ends.
class Pieces final : public HttpStream {
 public:
  explicit Pieces(std::vector<std::string> pieces) : pieces_(std::move(pieces)) {}
  Task<std::string> next() override {
    if (given_ == pieces_.size()) co_return std::string();
    co_return pieces_[given_++];
  }

 private:
  std::vector<std::string> pieces_;
  std::size_t given_ = 0;
};

/// Gives pieces for as long as the server wants some.
class Endless final : public HttpStream {
 public:
  explicit Endless(bool& ended) : ended_(ended) {}
  ~Endless() override { ended_ = true; }
  Task<std::string> next() override { co_return std::string(1 << 20, 'x'); }

 private:
  bool& ended_;
};

class HttpServerTest : public NetTest {
 protected:
  void listen(HttpLimits limits = {}) {
    limits_ = limits;
    server_ = HttpServer::listen(executor(),
                                 {.endpoint = Endpoint::tcp("127.0.0.1", 0), .limits = limits},
                                 [this](HttpRequest request) { return answer(std::move(request)); })
                  .value();
  }

  asio::awaitable<HttpAnswer> answer(HttpRequest request) {
    requests_.push_back(request);
    HttpAnswer answer{.response = {.content_type = "text/plain", .body = "hello"}};
    if (request.target.path == std::vector<std::string>{"stream"}) {
      answer.response.content_type = "text/event-stream";
      answer.stream = std::make_unique<Pieces>(std::vector<std::string>{"one\n", "two\n"});
    }
    if (request.target.path == std::vector<std::string>{"endless"})
      answer.stream = std::make_unique<Endless>(ended_);
    co_return answer;
  }

  /// Connect, send `text`, and return everything that the server sends until it closes.
  asio::awaitable<void> talk(std::string text, std::string* out) {
    asio::posix::stream_descriptor client(executor(), connect());
    constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
    auto [failed, sent] = co_await asio::async_write(client, asio::buffer(text), kAwait);
    std::string piece(4096, '\0');
    while (!failed) {
      auto [ended, count] = co_await client.async_read_some(asio::buffer(piece), kAwait);
      failed = ended;
      out->append(piece, 0, count);
    }
  }

  /// Return a connected socket.
  int connect() {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(server_->local_endpoint().port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  /// Return what the server answers to these bytes of one connection.
  std::string answer_to(const std::string& text) {
    listen(limits_);
    std::string got;
    run([&]() -> asio::awaitable<void> {
      Scope scope(executor());
      scope.spawn("server", server_->run());
      co_await talk(text, &got);
      scope.cancel();
      co_await scope.join();
    });
    return got;
  }

  HttpLimits limits_;
  bool ended_ = false;  // the endless stream
  std::unique_ptr<HttpServer> server_;
  std::vector<HttpRequest> requests_;
};

TEST_F(HttpServerTest, ARequestReachesTheHandlerWithItsHeaders) {
  const std::string got = answer_to(
      "POST /a/b?c=1 HTTP/1.1\r\nHost: localhost:1\r\nOrigin: http://localhost:1\r\n"
      "Authorization: Bearer x\r\nCookie: k=v\r\nContent-Type: application/json\r\n"
      "If-None-Match: \"e\"\r\nLast-Event-ID: 7\r\nSec-Fetch-Site: same-origin\r\n"
      "Content-Length: 2\r\nConnection: close\r\n\r\n{}");

  EXPECT_THAT(got, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(got, testing::EndsWith("\r\n\r\nhello"));
  ASSERT_EQ(requests_.size(), 1U);
  const HttpRequest& request = requests_[0];
  EXPECT_EQ(request.method, HttpMethod::Post);
  EXPECT_EQ(request.target.path, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request.target.query.text("c"), "1");
  EXPECT_EQ(request.host, "localhost:1");
  EXPECT_FALSE(request.host_repeated);
  EXPECT_EQ(request.origin, "http://localhost:1");
  EXPECT_EQ(request.authorization, "Bearer x");
  EXPECT_EQ(request.cookie, "k=v");
  EXPECT_EQ(request.content_type, "application/json");
  EXPECT_EQ(request.if_none_match, "\"e\"");
  EXPECT_EQ(request.last_event_id, "7");
  EXPECT_EQ(request.fetch_site, "same-origin");
  EXPECT_EQ(request.body, "{}");
}

TEST_F(HttpServerTest, EveryAnswerForbidsWhatPagesMustNotDo) {
  const std::string got = answer_to("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");

  EXPECT_THAT(got, HasSubstr("Content-Security-Policy: default-src 'self'"));
  EXPECT_THAT(got, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(got, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(got, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(got, HasSubstr("X-Frame-Options: DENY\r\n"));
  EXPECT_THAT(got, HasSubstr("Cache-Control: no-store\r\n"));
}

TEST_F(HttpServerTest, AConnectionServesSeveralRequests) {
  const std::string got = answer_to(
      "GET /1 HTTP/1.1\r\nHost: x\r\n\r\nHEAD /2 HTTP/1.1\r\nHost: x\r\n\r\n"
      "GET /3 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");

  EXPECT_EQ(requests_.size(), 3U);
  std::size_t bodies = 0;
  for (std::size_t at = got.find("\r\n\r\nhello"); at != got.npos;
       at = got.find("\r\n\r\nhello", at + 1))
    ++bodies;
  EXPECT_EQ(bodies, 2U);  // HEAD has none
}

TEST_F(HttpServerTest, AStreamComesPieceByPiece) {
  const std::string got = answer_to("GET /stream HTTP/1.1\r\nHost: x\r\n\r\n");

  EXPECT_THAT(got, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(got, testing::EndsWith("\r\n\r\n4\r\none\n\r\n4\r\ntwo\n\r\n0\r\n\r\n"));
}

TEST_F(HttpServerTest, APathThatLeadsUpwardsReachesNoHandler) {
  for (const char* path : {"/../etc/passwd", "/%2e%2e/etc/passwd", "/a/%2E%2e/b", "/..%2fb"}) {
    const std::string got =
        answer_to("GET " + std::string(path) + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(got, StartsWith("HTTP/1.1 400 ")) << path;
  }
  EXPECT_EQ(requests_.size(), 0U);
}

TEST_F(HttpServerTest, ARepeatedHostIsMarked) {
  (void)answer_to("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\nConnection: close\r\n\r\n");

  ASSERT_EQ(requests_.size(), 1U);
  EXPECT_TRUE(requests_[0].host_repeated);
}

TEST_F(HttpServerTest, WhatIsTooLargeIsRefusedBeforeItHasCome) {
  limits_ = {.header_bytes = 1024, .body_bytes = 100};

  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nX: " + std::string(2000, 'x')),
              StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 101\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(answer_to("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                        "65\r\n" +
                        std::string(101, 'x') + "\r\n0\r\n\r\n"),
              StartsWith("HTTP/1.1 413 "));
  EXPECT_EQ(requests_.size(), 0U);
}

TEST_F(HttpServerTest, WhatIsNoRequestIsRefused) {
  EXPECT_THAT(answer_to("\x16\x03\x01 this is TLS\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(answer_to("GET / HTTP/1.1\r\nHost : x\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(requests_.size(), 0U);
}

TEST_F(HttpServerTest, ARequestThatNeverEndsIsCutOff) {
  limits_ = {.request = milliseconds(50), .idle = milliseconds(50)};

  EXPECT_EQ(answer_to("GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "), "");
  EXPECT_EQ(answer_to("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nslow"), "");
  EXPECT_EQ(answer_to(""), "");
  EXPECT_EQ(requests_.size(), 0U);
}

TEST_F(HttpServerTest, AClientThatDoesNotReadItsStreamIsCutOff) {
  listen({.write = milliseconds(50)});
  const int client = connect();
  constexpr std::string_view kRequest = "GET /endless HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::send(client, kRequest.data(), kRequest.size(), 0), std::ssize(kRequest));

  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    scope.spawn("server", server_->run());
    while (!ended_) co_await asio::post(executor(), asio::use_awaitable);
    scope.cancel();
    co_await scope.join();
  });

  EXPECT_TRUE(ended_);
  ::close(client);
}

TEST_F(HttpServerTest, MoreConnectionsThanAllowedAreClosed) {
  listen({.connections = 1, .request = seconds(10)});
  std::string first, second;

  run([&]() -> asio::awaitable<void> {
    Scope scope(executor());
    scope.spawn("server", server_->run());
    Scope clients(executor());
    clients.spawn("first", talk("GET / HTTP/1.1\r\n", &first));
    clients.spawn("second", talk("GET / HTTP/1.1\r\n", &second));
    while (clients.size() > 1) co_await asio::post(executor(), asio::use_awaitable);
    EXPECT_EQ(clients.names(), std::vector<std::string>{"first"});
    scope.cancel();
    co_await scope.join();
    co_await clients.join();
  });

  EXPECT_EQ(first, "");
  EXPECT_EQ(second, "");
}

TEST_F(HttpServerTest, AnAddressThatIsTakenIsNamed) {
  listen();
  const Endpoint taken = server_->local_endpoint();

  const auto second = HttpServer::listen(executor(), {.endpoint = taken},
                                         [this](HttpRequest request) { return answer(request); });

  EXPECT_EQ(second.error().message, "listening on " + taken.text() + ": Address already in use");
  EXPECT_THAT(second.error().hint, HasSubstr("--listen"));
}

}  // namespace
}  // namespace train
