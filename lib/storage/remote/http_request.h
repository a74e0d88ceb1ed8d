// This file makes one HTTP request by libcurl, or repeats a request until it is answered.
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
  /// How to sign it with AWS SigV4: "aws:amz:<region>:s3", and "<key>:<secret>". Empty: not signed.
  std::string signed_for = {}, user = {};
};

struct HttpAnswer {
  long status = 0;  // 0: none came, and `failure` says why
  std::string body, failure = {};
  bool good() const { return status >= 200 && status < 300; }
};

/// Send the request and return the answer. Blocks for at most 10 s to connect, then as long as at
/// least one byte a minute arrives. Redirects are not followed.
HttpAnswer ask(const HttpRequest& request);

/// Return whether the same request may be answered another time: there was no answer, or the store
/// is throttled or overloaded.
bool worth_another_try(long status);

/// Escape `text` for use in a URL; '/' is escaped too.
std::string escaped(const std::string& text);

/// Ask until there is an answer that more tries cannot change, or `retry_timeout` ends. Each try
/// uses a new request from `make`, since signatures expire. Return the body, or AlreadyExists
/// (412), NotFound (404), Permission (401, 403), Unavailable or Io. `message_of` finds the store's
/// own words in a body.
Result<std::string> ask_until(const std::function<Result<HttpRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options);

}  // namespace train::remote
