#include "tests/fakes/http_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace train::fakes {
namespace {

constexpr int kLookEveryMs = 20;      // whether the server is to end
constexpr int kRequestWaitMs = 5000;  // for its next bytes

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Read until `end` is in the text, or until it has `size` bytes.
bool read_more(int connection, std::string& text, std::size_t size) {
  pollfd readable{connection, POLLIN, 0};
  while (size == 0 ? text.find("\r\n\r\n") == std::string::npos : text.size() < size) {
    char piece[4096];
    if (::poll(&readable, 1, kRequestWaitMs) <= 0) return false;
    const ssize_t count = ::recv(connection, piece, sizeof piece, 0);
    if (count <= 0) return false;
    text.append(piece, static_cast<std::size_t>(count));
  }
  return true;
}

std::optional<ReceivedRequest> read_request(int connection) {
  std::string text;
  if (!read_more(connection, text, 0)) return std::nullopt;
  const std::size_t end = text.find("\r\n\r\n") + 4;
  ReceivedRequest request;
  std::istringstream head(text.substr(0, end));
  std::string line;
  std::getline(head, line);
  std::istringstream(line) >> request.method >> request.target;
  while (std::getline(head, line) && line != "\r") {
    const std::size_t colon = line.find(':');
    const std::size_t begin = line.find_first_not_of(' ', colon + 1);
    request.headers[lower(line.substr(0, colon))] = line.substr(begin, line.size() - begin - 1);
  }
  const auto length = request.headers.find("content-length");
  const std::size_t size = length == request.headers.end() ? 0 : std::stoul(length->second);
  if (size > 0 && !read_more(connection, text, end + size)) return std::nullopt;
  request.body = text.substr(end);
  return request;
}

}  // namespace

HttpServer::HttpServer(Handler handler, std::uint16_t port) : handler_(std::move(handler)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  socklen_t size = sizeof address;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw std::runtime_error("a test's HTTP server cannot listen");
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { run(); });
}

HttpServer::~HttpServer() {
  ending_ = true;
  thread_.join();
  ::close(listener_);
}

std::string HttpServer::url(const std::string& target) const {
  return "http://127.0.0.1:" + std::to_string(port_) + target;
}

std::vector<ReceivedRequest> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::run() {
  pollfd readable{listener_, POLLIN, 0};
  while (!ending_) {
    if (::poll(&readable, 1, kLookEveryMs) <= 0) continue;
    const int connection = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) continue;
    serve(connection);
    ::close(connection);
  }
}

void HttpServer::serve(int connection) {
  auto request = read_request(connection);
  if (!request) return;
  const Reply reply = handler_(*request);
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(std::move(*request));
  }
  if (reply.cut) return;
  std::ostringstream text;
  text << "HTTP/1.1 " << reply.status
       << " X\r\nContent-Type: application/json\r\nContent-Length: " << reply.body.size()
       << "\r\nConnection: close\r\n\r\n"
       << reply.body;
  const std::string bytes = text.str();
  (void)::send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

}  // namespace train::fakes
