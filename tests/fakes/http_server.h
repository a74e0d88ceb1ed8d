// A small HTTP server for tests: answers one request per connection, on 127.0.0.1, on a thread of
// its own. Requests are kept in the order of their arrival.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace train::fakes {

struct ReceivedRequest {
  std::string method, target;                  // "POST", "/hook?x=1"
  std::map<std::string, std::string> headers;  // names in lower case
  std::string body;
};

struct Reply {
  int status = 200;
  std::string body = "{}";
  bool cut = false;  // close the connection without an answer
};

class HttpServer {
 public:
  using Handler = std::function<Reply(const ReceivedRequest&)>;
  /// `port`: of an earlier server, to take its place; 0: any.
  explicit HttpServer(Handler handler, std::uint16_t port = 0);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string url(const std::string& target = "") const;
  std::vector<ReceivedRequest> requests() const;

 private:
  void run();
  void serve(int connection);

  const Handler handler_;
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> ending_ = false;
  mutable std::mutex mutex_;  // protects requests_
  std::vector<ReceivedRequest> requests_;
  std::thread thread_;
};

}  // namespace train::fakes
