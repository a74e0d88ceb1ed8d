// What our handlers answer to an HTTP request.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/base/error.h"
#include "lib/net/task.h"

namespace train {

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};
  /// More headers. The server adds those of every answer (security_headers()) and Content-Length.
  std::vector<std::pair<std::string, std::string>> headers = {};
};

/// A body that comes piece by piece, until the client leaves: server-sent events.
class HttpStream {
 public:
  virtual ~HttpStream() = default;
  /// Wait for the next piece, and return it. An empty one, or an error, ends the stream. The server
  /// asks only once the client has got the one before.
  virtual Task<std::string> next() = 0;
};

struct HttpAnswer {
  HttpResponse response = {};
  std::unique_ptr<HttpStream> stream = nullptr;  // follows the response, whose body is not used
};

/// Return the status for an error: 404 for NotFound, …
int http_status_of(Errc code);
/// Return {"error":{"code","message","hint"}} with that status. Pure.
HttpResponse problem(const Error& error);
/// The same with another status.
HttpResponse problem(int status, const Error& error);

/// Return the headers of every answer: what a browser must not do with it.
const std::vector<std::pair<std::string, std::string>>& security_headers();

/// Return whether the client's copy (If-None-Match) is the one of `etag`.
bool etag_matches(std::string_view if_none_match, std::string_view etag);

}  // namespace train
