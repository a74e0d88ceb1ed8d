// One HTTP request and its answer, as plain values. curl/ask.h sends it; http_client.h finds that
// function in a module that is loaded on demand.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/time.h"

namespace train {

struct WebRequest {
  const char* method = "GET";
  std::string url;                        // http:// or https://
  std::vector<std::string> headers = {};  // "Name: value"
  std::string_view body = {};
  /// For signing with AWS SigV4: "aws:amz:<region>:s3", and "<key>:<secret>" in `user`. Empty: not
  /// signed.
  std::string signed_for = {};
  std::string user = {};  // "<name>:<password>", for signing, else for Basic authentication
  /// For the whole request. Zero: as long as it takes, if the transfer does not stand still.
  Duration timeout{};
  std::string ca_file = {};  // the certificates to trust; empty: the system's
  bool verify = true;        // the server's certificate
  /// If set, the body of a good answer goes there, and WebAnswer::body stays empty.
  char* into = nullptr;
  std::size_t into_bytes = 0;
  /// Keep the connection for this thread's next such request.
  bool keep_connection = false;
  /// Called a few times a second, and often while data flows, on the caller's thread: returns
  /// whether to give up. Empty: never.
  std::function<bool()> cancelled = {};
};

struct WebAnswer {
  long status = 0;  // 0: there was no answer; `failure` tells why
  std::string body = {}, failure = {};
  std::size_t bytes_into = 0;  // of WebRequest::into
  bool too_long = false;       // given up, as the body does not fit there
  bool good() const { return status >= 200 && status < 300; }
};

/// Return whether the same request may succeed another time: there was no answer, or the status
/// tells that the server is busy, throttling or broken (501: it will never do it).
constexpr bool worth_another_try(long status) {
  return status == 0 || status == 408 || status == 409 || status == 429 ||
         (status >= 500 && status != 501);
}

}  // namespace train
