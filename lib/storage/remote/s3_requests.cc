#include "lib/storage/remote/s3_requests.h"

#include <fmt/format.h>

namespace train::remote {
namespace {

/// Return S3's message from an error's XML, "<Message>…</Message>", or the beginning of any other
/// body.
std::string message_of(const std::string& body) {
  const auto begin = body.find("<Message>");
  const auto end = body.find("</Message>");
  if (begin == std::string::npos || end == std::string::npos || end < begin)
    return body.substr(0, 200);
  return body.substr(begin + 9, end - begin - 9);
}

/// Escape a key, except for '/': "/a%20b/c".
std::string escaped_path(const std::string& key) {
  std::string path;
  for (std::size_t start = 0; start <= key.size();) {
    const std::size_t slash = std::min(key.find('/', start), key.size());
    path += "/" + escaped(key.substr(start, slash - start));
    start = slash + 1;
  }
  return path;
}

}  // namespace

std::string S3Requests::url_of(const std::string& key) const {
  if (location_.endpoint.empty())
    return fmt::format("{}://{}.s3.{}.amazonaws.com{}", location_.scheme, location_.bucket,
                       location_.region, escaped_path(key));
  return fmt::format("{}://{}/{}{}", location_.scheme, location_.endpoint, location_.bucket,
                     escaped_path(key));
}

WebRequest S3Requests::request(const char* method, const std::string& url) const {
  const S3Keys keys = keys_();
  WebRequest request{method, url};
  request.headers = {"Content-Type: application/octet-stream"};
  if (!keys.session_token.empty())
    request.headers.push_back("x-amz-security-token: " + keys.session_token);
  if (keys.access_key.empty()) return request;  // for buckets that everybody may read
  request.signed_for = fmt::format("aws:amz:{}:s3", location_.region);
  request.user = fmt::format("{}:{}", keys.access_key, keys.secret_key);
  return request;
}

Result<Unit> S3Requests::put_new(const std::string& key, std::string_view bytes) const {
  const auto make = [&]() -> Result<WebRequest> {
    WebRequest put = request("PUT", url_of(key));
    put.headers.push_back("If-None-Match: *");
    put.body = bytes;
    return put;
  };
  TRY_VOID(ask_until(make, message_of, kS3Hints, options_));
  return Unit{};
}

Result<Unit> S3Requests::remove(const std::string& key) const {
  const auto make = [&]() -> Result<WebRequest> { return request("DELETE", url_of(key)); };
  const auto removed = ask_until(make, message_of, kS3Hints, options_);
  if (removed.has_error() && removed.error().code != Errc::NotFound) return removed.error();
  return Unit{};
}

Result<std::string> S3Requests::ask_about_uploads(const char* method, const std::string& key,
                                                  const std::string& query) const {
  const std::string url = fmt::format("{}?{}", url_of(key), query);
  const auto make = [&]() -> Result<WebRequest> { return request(method, url); };
  return ask_until(make, message_of, kS3Hints, options_);
}

Result<std::vector<S3Upload>> S3Requests::uploads(const std::string& prefix) const {
  constexpr int kPagesMax = 1000;  // of 1,000 uploads each
  std::vector<S3Upload> all;
  S3UploadsPage page;
  int pages = 0;
  do {
    if (++pages > kPagesMax)
      return Error{Errc::Unavailable, fmt::format("a list of multipart uploads below '{}' that has "
                                                  "no end",
                                                  prefix)};
    // The signature needs the names in order.
    std::string query = fmt::format("prefix={}", escaped(prefix));
    if (!page.next_key.empty())
      query = fmt::format("key-marker={}&{}&upload-id-marker={}", escaped(page.next_key), query,
                          escaped(page.next_id));
    TRY(const std::string body, ask_about_uploads("GET", "", query + "&uploads="));
    TRY(page, parse_uploads(body));
    all.insert(all.end(), page.uploads.begin(), page.uploads.end());
  } while (!page.next_key.empty());
  return all;
}

Result<Unit> S3Requests::abort(const S3Upload& upload) const {
  const auto aborted = ask_about_uploads("DELETE", upload.key, "uploadId=" + escaped(upload.id));
  if (aborted.has_error() && aborted.error().code != Errc::NotFound) return aborted.error();
  return Unit{};
}

std::string S3Requests::shown(const std::string& key) const {
  return fmt::format("s3://{}/{}", location_.bucket, key);
}

/// Add to a refusal that no credentials were found.
Error S3Requests::explained(Error error) const {
  if (error.code == Errc::Permission && keys_().access_key.empty())
    error.message += " (the request had no credentials, as none were found)";
  return error;
}

Result<ObjectsPage> S3Requests::list_page(const std::string& prefix, const std::string& name,
                                          std::size_t objects) const {
  // The signature needs the names in order.
  const std::string url = fmt::format("{}?{}{}list-type=2&max-keys={}&prefix={}", url_of(""),
                                      name.empty() ? "" : "continuation-token=" + escaped(name),
                                      name.empty() ? "" : "&", objects, escaped(prefix));
  const auto make = [&]() -> Result<WebRequest> { return request("GET", url); };
  auto page = list_until(make, message_of, parse_s3_objects, shown(prefix), kS3Hints, options_);
  if (page.has_error()) return explained(std::move(page).error());
  return page;
}

Result<std::vector<ObjectStatus>> S3Requests::find(const std::string& prefix,
                                                   std::size_t objects_max) const {
  constexpr std::size_t kPageObjects = 1000;
  return all_pages([&](const std::string& name) { return list_page(prefix, name, kPageObjects); },
                   objects_max, shown(prefix));
}

Result<std::optional<ObjectStatus>> S3Requests::status(const std::string& key) const {
  // Of all keys that begin like it, it comes first.
  TRY(const ObjectsPage page, list_page(key, "", 1));
  for (const ObjectStatus& object : page.objects)
    if (object.key == key) return std::optional(object);
  return std::optional<ObjectStatus>();
}

Result<Unit> S3Requests::read_range(const RangeRead& range) const {
  const auto make = [&]() -> Result<WebRequest> {
    WebRequest get = request("GET", url_of(range.key));
    if (!range.version.empty()) get.headers.push_back("If-Match: " + range.version);
    return get;
  };
  auto read = read_range_until(make, message_of, range, shown(range.key), kS3Hints, options_);
  if (read.has_error()) return explained(std::move(read).error());
  return read;
}

}  // namespace train::remote
