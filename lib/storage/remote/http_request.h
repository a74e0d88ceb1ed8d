// One HTTP request by libcurl, and a request that is repeated until it is answered.
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
  /// To be signed with AWS SigV4: "aws:amz:<region>:s3", and "<key>:<secret>". Empty: not signed.
  std::string signed_for = {}, user = {};
};

struct HttpAnswer {
  long status = 0;  // 0: none came, and `failure` says why
  std::string body, failure = {};
  bool good() const { return status >= 200 && status < 300; }
};

/// Blocks: 10 s to connect, and while a byte comes at least once a minute. Redirects are not
/// followed.
HttpAnswer ask(const HttpRequest& request);

/// Whether the same request may be answered another time: no answer, throttled, overloaded.
bool worth_another_try(long status);

/// `text` as it may stand in an URL; '/' too is escaped.
std::string escaped(const std::string& text);

/// Ask, with a request of `make`'s each time (what signs it expires), until there is an answer that
/// more tries cannot change, or `patience` ends: the body; or AlreadyExists (412), NotFound (404),
/// Permission (401, 403), Unavailable, Io. `message_of` finds the store's own words in a body.
Result<std::string> ask_until(const std::function<Result<HttpRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options);

}  // namespace train::remote
