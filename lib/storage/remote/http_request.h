// Repeats a request to an object store until it is answered.
#pragma once

#include <functional>
#include <string>

#include "lib/http_client/curl/ask.h"
#include "lib/storage/object_store.h"
#include "lib/storage/remote/object_listing.h"
#include "lib/storage/remote/store_hints.h"

namespace train::remote {

/// Send requests until there is an answer that another try would not change, or until
/// `retry_timeout`. Each try uses a new request from `make`, since signatures expire. Return the
/// body, or AlreadyExists (412), NotFound (404), Permission (401, 403), Unavailable or Io.
/// `message_of` extracts the store's message from a body.
Result<std::string> ask_until(const std::function<Result<WebRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options);

/// Send requests for a page of a list as above, until it can be read: a short answer is no list.
/// `shown` is the URL of what is listed, for messages.
Result<ObjectsPage> list_until(
    const std::function<Result<WebRequest>()>& make,
    const std::function<std::string(const std::string& body)>& message_of,
    const std::function<Result<ObjectsPage>(std::string_view body)>& parse,
    const std::string& shown, const StoreHints& hints, const ObjectStoreOptions& options);

/// Send requests for a range as above, each with its own limit of time, until all of its bytes have
/// come. `shown` is the object's URL, for messages. Corrupt (412, 416): it has changed.
Result<Unit> read_range_until(const std::function<Result<WebRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const RangeRead& range, const std::string& shown,
                              const StoreHints& hints, const ObjectStoreOptions& options);

/// Ask for pages of a list of objects until there is no next one, and sort them. `page` asks for
/// the page of that name, "" for the first. ResourceExhausted above `objects_max`.
Result<std::vector<ObjectStatus>> all_pages(
    const std::function<Result<ObjectsPage>(const std::string& name)>& page,
    std::size_t objects_max, const std::string& shown);

}  // namespace train::remote
