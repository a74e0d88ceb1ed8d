#include "lib/storage/remote/s3_requests.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <boost/property_tree/ptree.hpp>
#include <boost/property_tree/xml_parser.hpp>
#include <chrono>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>

#include "lib/storage/remote/retries.h"

namespace train::remote {
namespace {

constexpr long kConnectSeconds = 10;
constexpr long kStandsStillSeconds = 60;  // less than a byte a second for so long: given up
constexpr std::size_t kBodyBytesMax = 4 << 20;

std::size_t append_body(char* bytes, std::size_t size, std::size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() < kBodyBytesMax) text.append(bytes, size * count);
  return size * count;
}

/// What S3 says in its XML of an error: "<Message>…</Message>"; the whole where it is something
/// else.
std::string message_of(const std::string& body) {
  const auto begin = body.find("<Message>");
  const auto end = body.find("</Message>");
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return body.substr(0, 200);
  return body.substr(begin + 9, end - begin - 9);
}

std::string escaped(const std::string& text) {
  const std::unique_ptr<char, void (*)(void*)> safe(
      curl_easy_escape(nullptr, text.data(), static_cast<int>(text.size())), curl_free);
  return safe.get();
}

struct UploadsPage {
  std::vector<S3Requests::Upload> uploads;
  std::string next_key, next_id;  // where the next page begins; empty: this is the last
};

/// ListMultipartUploadsResult.
Result<UploadsPage> parse_uploads(const std::string& body) {
  namespace pt = boost::property_tree;
  try {
    std::istringstream text(body);
    pt::ptree tree;
    pt::read_xml(text, tree);
    const pt::ptree& result = tree.get_child("ListMultipartUploadsResult");
    UploadsPage page;
    for (const auto& [name, entry] : result)
      if (name == "Upload")
        page.uploads.push_back({entry.get<std::string>("Key"), entry.get<std::string>("UploadId")});
    if (result.get<std::string>("IsTruncated", "") == "true")
      page.next_key = result.get<std::string>("NextKeyMarker"),
      page.next_id = result.get<std::string>("NextUploadIdMarker");
    return page;
  } catch (const pt::ptree_error& e) {
    return Error{Errc::Io,
                 fmt::format("a list of multipart uploads that cannot be read: {}", e.what())};
  }
}

bool worth_another_try(long status) {
  return status == 0 || status == 408 || status == 409 || status == 429 || status >= 500;
}

}  // namespace

std::string S3Requests::url_of(const std::string& key) const {
  std::string escaped;
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(curl_easy_init(), curl_easy_cleanup);
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t slash = std::min(key.find('/', start), key.size());
    char* part = curl_easy_escape(curl.get(), key.data() + start, static_cast<int>(slash - start));
    escaped += fmt::format("/{}", part);
    curl_free(part);
    start = slash + 1;
  }
  if (place_.endpoint.empty())
    return fmt::format("{}://{}.s3.{}.amazonaws.com{}", place_.scheme, place_.bucket, place_.region,
                       escaped);
  return fmt::format("{}://{}/{}{}", place_.scheme, place_.endpoint, place_.bucket, escaped);
}

S3Requests::Answer S3Requests::ask(const char* method, const std::string& url,
                                   std::string_view bytes, bool if_none_match) const {
  static const bool ready = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  Answer answer;
  const std::unique_ptr<CURL, void (*)(CURL*)> curl(ready ? curl_easy_init() : nullptr,
                                                    curl_easy_cleanup);
  if (curl == nullptr) {
    answer.failure = "libcurl cannot be set up";
    return answer;
  }
  const S3Keys keys = keys_();
  const std::string signed_for = fmt::format("aws:amz:{}:s3", place_.region);
  const std::string user = fmt::format("{}:{}", keys.access_key, keys.secret_key);
  curl_slist* headers = nullptr;
  if (if_none_match) headers = curl_slist_append(headers, "If-None-Match: *");
  headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
  headers = curl_slist_append(headers, "Expect:");
  if (!keys.session_token.empty())
    headers = curl_slist_append(
        headers, fmt::format("x-amz-security-token: {}", keys.session_token).c_str());
  char error[CURL_ERROR_SIZE] = "";
  CURL* c = curl.get();
  curl_easy_setopt(c, CURLOPT_URL, url.c_str());
  curl_easy_setopt(c, CURLOPT_CUSTOMREQUEST, method);
  curl_easy_setopt(c, CURLOPT_AWS_SIGV4, signed_for.c_str());
  curl_easy_setopt(c, CURLOPT_USERPWD, user.c_str());
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
  curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(bytes.size()));
  curl_easy_setopt(c, CURLOPT_POSTFIELDS, bytes.data());
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, append_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, &answer.body);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, kStandsStillSeconds);
  const CURLcode done = curl_easy_perform(c);
  curl_slist_free_all(headers);
  if (done == CURLE_OK)
    curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &answer.status);
  else
    answer.failure = *error != '\0' ? error : curl_easy_strerror(done);
  return answer;
}

Result<Unit> S3Requests::ask_until(const char* method, const std::string& key,
                                   std::string_view bytes, bool if_none_match) const {
  for (std::int64_t tries = 0;; ++tries) {
    const Answer answer = ask(method, url_of(key), bytes, if_none_match);
    if (answer.status >= 200 && answer.status < 300) return Unit{};
    const std::string what = answer.status == 0
                                 ? answer.failure
                                 : fmt::format("{} {}", answer.status, message_of(answer.body));
    const std::string text = fmt::format("{} {}: {}", method, url_of(key), what);
    if (answer.status == 412) return Error{Errc::AlreadyExists, text};
    if (worth_another_try(answer.status) && may_try_again(tries, options_.patience)) {
      const Duration pause = with_chance(pause_before(tries));
      if (options_.on_retry) options_.on_retry(fmt::format("{}; trying again", text));
      std::this_thread::sleep_for(pause);
      continue;
    }
    if (answer.status == 404) {
      if (std::string_view(method) == "DELETE") return Unit{};
      return Error{Errc::NotFound, text, "does the bucket exist, at this endpoint?"};
    }
    if (answer.status == 403 || answer.status == 401)
      return Error{Errc::Permission, text,
                   "check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE, or the machine's role) "
                   "and what they may do"};
    return Error{worth_another_try(answer.status) ? Errc::Unavailable : Errc::Io, text};
  }
}

Result<Unit> S3Requests::put_new(const std::string& key, std::string_view bytes) const {
  return ask_until("PUT", key, bytes, true);
}

Result<Unit> S3Requests::remove(const std::string& key) const {
  return ask_until("DELETE", key, {}, false);
}

Result<std::string> S3Requests::ask_once(const char* method, const std::string& key,
                                         const std::string& query) const {
  const std::string url = fmt::format("{}?{}", url_of(key), query);
  Answer answer = ask(method, url, {}, false);
  if (answer.status >= 200 && answer.status < 300) return std::move(answer.body);
  return Error{Errc::Io,
               fmt::format("{} {}: {} {}", method, url, answer.status,
                           answer.status == 0 ? answer.failure : message_of(answer.body))};
}

Result<std::vector<S3Requests::Upload>> S3Requests::uploads(const std::string& prefix) const {
  std::vector<Upload> all;
  UploadsPage page;
  do {
    std::string query = fmt::format("prefix={}", escaped(prefix));  // names in order, to be signed
    if (!page.next_key.empty())
      query = fmt::format("key-marker={}&{}&upload-id-marker={}", escaped(page.next_key), query,
                          escaped(page.next_id));
    TRY(const std::string body, ask_once("GET", "", query + "&uploads="));
    TRY(page, parse_uploads(body));
    all.insert(all.end(), page.uploads.begin(), page.uploads.end());
  } while (!page.next_key.empty());
  return all;
}

Result<Unit> S3Requests::abort(const Upload& upload) const {
  TRY_VOID(ask_once("DELETE", upload.key, "uploadId=" + escaped(upload.id)));
  return Unit{};
}

}  // namespace train::remote
