// Finds libcurl for programs that must start fast: the first request loads libtrainrun_http.so, and
// libcurl with its 30 libraries.
#pragma once

#include "lib/base/result.h"
#include "lib/http_client/http_request.h"

namespace train {

using AskHttp = std::function<WebAnswer(const WebRequest&)>;

/// Load the module and return its function, which blocks until there is an answer; any thread may
/// call both. Unavailable: the module cannot be loaded.
Result<AskHttp> load_http_client();

/// The entry of libtrainrun_http.so.
inline constexpr const char* kHttpModuleEntry = "trainrun_ask_http";
using HttpModuleEntry = void (*)(const WebRequest& request, WebAnswer* answer);

}  // namespace train
