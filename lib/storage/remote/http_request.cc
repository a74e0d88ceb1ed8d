#include "lib/storage/remote/http_request.h"

#include <fmt/format.h>

#include "lib/storage/remote/retries.h"

namespace train::remote {
namespace {

Errc code_of(long status) {
  if (status == 412) return Errc::AlreadyExists;
  if (status == 404) return Errc::NotFound;
  if (status == 401 || status == 403) return Errc::Permission;
  return worth_another_try(status) ? Errc::Unavailable : Errc::Io;
}

}  // namespace

Result<std::string> ask_until(const std::function<Result<WebRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options) {
  return insist(options, [&]() -> Result<std::string> {
    TRY(const WebRequest request, make());
    WebAnswer answer = ask(request);
    if (answer.good()) return std::move(answer.body);
    const std::string what = answer.status == 0
                                 ? answer.failure
                                 : fmt::format("{} {}", answer.status, message_of(answer.body));
    const Errc code = code_of(answer.status);
    return Error{code, fmt::format("{} {}: {}", request.method, request.url, what), hints.of(code)};
  });
}

}  // namespace train::remote
