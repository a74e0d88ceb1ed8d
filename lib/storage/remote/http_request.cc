#include "lib/storage/remote/http_request.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <memory>

#include "lib/storage/remote/retries.h"

namespace train::remote {
namespace {

constexpr long kConnectSeconds = 10;
// Give up a transfer after this long with less than one byte per second.
constexpr long kStandsStillSeconds = 60;
constexpr std::size_t kBodyBytesMax = 4 << 20;

std::size_t append_body(char* bytes, std::size_t size, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() < kBodyBytesMax) text.append(bytes, size * count);
  return size * count;
}

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

Headers headers_of(const HttpRequest& request) {
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  return {list, curl_slist_free_all};
}

Errc code_of(long status) {
  if (status == 412) return Errc::AlreadyExists;
  if (status == 404) return Errc::NotFound;
  if (status == 401 || status == 403) return Errc::Permission;
  return worth_another_try(status) ? Errc::Unavailable : Errc::Io;
}

}  // namespace

bool worth_another_try(long status) {
  return status == 0 || status == 408 || status == 409 || status == 429 || status >= 500;
}

std::string escaped(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> safe(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return safe.get();
}

HttpAnswer ask(const HttpRequest& request) {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  HttpAnswer answer;
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(ready ? curl_easy_init() : nullptr,
                                                    curl_easy_cleanup);
  if (curl == nullptr) {
    answer.failure = "libcurl cannot be set up";
    return answer;
  }
  const Headers headers = headers_of(request);
  char error[CURL_ERROR_SIZE] = "";
  CURL* c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, request.method);
  if (!request.signed_for.empty()) {
    curl_easy_setopt(c, CURLOPT_AWS_SIGV4, request.signed_for.c_str());
    curl_easy_setopt(c, CURLOPT_USERPWD, request.user.c_str());
  }
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(c, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, append_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, kStandsStillSeconds);
  const CURLcode done = curl_easy_perform(c);
  if (done == CURLE_OK)
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &answer.status);
  else
    answer.failure = *error != '\0' ? error : curl_easy_strerror(done);
  return answer;
}

Result<std::string> ask_until(const std::function<Result<HttpRequest>()>& make,
                              const std::function<std::string(const std::string& body)>& message_of,
                              const StoreHints& hints, const ObjectStoreOptions& options) {
  return insist(options, [&]() -> Result<std::string> {
    TRY(const HttpRequest request, make());
    HttpAnswer answer = ask(request);
    if (answer.good()) return std::move(answer.body);
    const std::string what = answer.status == 0
                                 ? answer.failure
                                 : fmt::format("{} {}", answer.status, message_of(answer.body));
    const Errc code = code_of(answer.status);
    return Error{code, fmt::format("{} {}: {}", request.method, request.url, what), hints.of(code)};
  });
}

}  // namespace train::remote
