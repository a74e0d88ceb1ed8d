#include "lib/http_client/curl/ask.h"

#include <curl/curl.h>

#include <cstring>
#include <memory>

namespace train {
namespace {

constexpr long kConnectSeconds = 10;
// Give up a transfer after this long with less than one byte per second.
constexpr long kStandsStillSeconds = 60;
constexpr std::size_t kBodyBytesMax = 4 << 20;

/// An answer that is arriving.
struct Arriving {
  const WebRequest& request;
  WebAnswer& answer;
  CURL* curl;
};

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* arriving) {
  auto& [request, answer, curl] = *static_cast<Arriving*>(arriving);
  size *= count;
  long status = 0;
  if (request.into != nullptr) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (status >= 200 && status < 300) {
    answer.too_long = size > request.into_bytes - answer.bytes_into;
    if (answer.too_long) return CURL_WRITEFUNC_ERROR;
    std::memcpy(request.into + answer.bytes_into, bytes, size);
    answer.bytes_into += size;
  } else if (answer.body.size() < kBodyBytesMax) {
    answer.body.append(bytes, size);
  }
  return size;
}

int is_cancelled(void* request, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return static_cast<const WebRequest*>(request)->cancelled() ? 1 : 0;
}

using Headers = std::unique_ptr<curl_slist, void (*)(curl_slist*)>;

Headers headers_of(const WebRequest& request) {
  curl_slist* list = curl_slist_append(nullptr, "Expect:");
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  return {list, curl_slist_free_all};
}

void set_limits(CURL* curl, const WebRequest& request) {
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, kStandsStillSeconds);
  if (request.timeout > Duration::zero()) {
    const auto limit = std::chrono::ceil<milliseconds>(request.timeout);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, static_cast<long>(limit.count()));
  }
  if (!request.cancelled) return;
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, is_cancelled);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &request);
}

void set_identity(CURL* curl, const WebRequest& request) {
  if (!request.signed_for.empty())
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4, request.signed_for.c_str());
  if (!request.user.empty()) curl_easy_setopt(curl, CURLOPT_USERPWD, request.user.c_str());
  if (!request.ca_file.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, request.ca_file.c_str());
  if (request.verify) return;
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
}

}  // namespace

std::string escaped(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> safe(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return safe.get();
}

namespace {

using Handle = std::unique_ptr<CURL, void (*)(CURL*)>;

Handle new_handle() {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  return {ready ? curl_easy_init() : nullptr, curl_easy_cleanup};
}

/// Return the thread's handle, which keeps connections, without options.
CURL* kept_handle() {
  thread_local const Handle kept = new_handle();
  return kept.get();
}

}  // namespace

WebAnswer ask(const WebRequest& request) {
  WebAnswer answer;
  const Handle own = request.keep_connection ? Handle(nullptr, curl_easy_cleanup) : new_handle();
  CURL* c = request.keep_connection ? kept_handle() : own.get();
  if (c == nullptr) {
    answer.failure = "libcurl cannot be set up";
    return answer;
  }
  const Headers headers = headers_of(request);
  char error[CURL_ERROR_SIZE] = "";
  Arriving arriving{request, answer, c};
  curl_easy_setopt(c, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);  // keys may have ".." in them
  curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, request.method);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(c, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &arriving);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error);
  set_identity(c, request);
  set_limits(c, request);
  const CURLcode done = curl_easy_perform(c);
  if (done == CURLE_OK)
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &answer.status);
  else
    answer.failure = *error != '\0' ? error : curl_easy_strerror(done);
  if (request.keep_connection) curl_easy_reset(c);  // the options point to what ends now
  return answer;
}

}  // namespace train
