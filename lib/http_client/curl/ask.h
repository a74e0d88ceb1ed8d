// Sends HTTP requests with libcurl.
#pragma once

#include <string>

#include "lib/http_client/http_request.h"

namespace train {

/// Send the request and return the answer. Gives up if connecting takes over 10 s, if for 60 s the
/// transfer is slower than one byte per second, or after the request's own timeout. Keeps 4 MiB of
/// a body. Follows no redirects, and speaks only HTTP and HTTPS. Any thread may call.
WebAnswer ask(const WebRequest& request);

/// Escape `text` for use in a URL; '/' is escaped too.
std::string escaped(const std::string& text);

}  // namespace train
