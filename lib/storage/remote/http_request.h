// This file sends one HTTP request with libcurl, or repeats a request until it is answered.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/storage/object_store.h"
#include "lib/storage/remote/store_hints.h"

namespace train::remote {

struct HttpRequest {
  const char* method = "GET";
  std::string url;
  std::vector<std::string> headers = {};  // "Name: value"
  std::string_view body = {};
  /// For signing with AWS SigV4: "aws:amz:<region>:s3", and "<key>:<secret>". Empty: not signed.
  std::string signed_for = {}, user = {};
};

struct HttpAnswer {
  long status = 0;  // 0: there was no answer; `failure` tells why
  std::string body, failure = {};
  bool good() const { return status >= 200 && status < 300; }
};

/// Send the request and return the answer. Gives up if connecting takes over 10 s, or if for 60 s
/// the transfer is slower than one byte per second. Does not follow redirects.
HttpAnswer ask(const HttpRequest& request);

/// Return whether the same request may succeed another time: there was no answer, or the status
/// tells that the store is busy, throttling or broken.
bool worth_another_try(long status);

/// Escape `text` for use in a URL; '/' is escaped too.
std::string escaped(const std::string& text);

/// Send requests until there is an answer that another try would not change, or until
/// `retry_timeout`. Each try uses a new request from `make`, since signatures expire. Return the
/// body, or AlreadyExists (412), NotFound (404), Permission (401, 403), Unavailable or Io.
/// `message_of` extracts the store's message from a body.
Result<std::string> ask_until(const std::function<Result<HttpRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options);

}  // namespace train::remote
