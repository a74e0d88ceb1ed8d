// Repeats a request to an object store until it is answered.
#pragma once

#include <functional>
#include <string>

#include "lib/http_client/curl/ask.h"
#include "lib/storage/object_store.h"
#include "lib/storage/remote/store_hints.h"

namespace train::remote {

/// Send requests until there is an answer that another try would not change, or until
/// `retry_timeout`. Each try uses a new request from `make`, since signatures expire. Return the
/// body, or AlreadyExists (412), NotFound (404), Permission (401, 403), Unavailable or Io.
/// `message_of` extracts the store's message from a body.
Result<std::string> ask_until(const std::function<Result<WebRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options);

}  // namespace train::remote
