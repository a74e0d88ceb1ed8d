#include "lib/storage/remote/gcs_store.h"

#include <arrow/filesystem/gcsfs.h>
#include <fmt/format.h>

#include <boost/json.hpp>

#include "lib/storage/remote/arrow_store.h"
#include "lib/storage/remote/google_credentials.h"
#include "lib/storage/remote/http_request.h"
#include "lib/storage/remote/retries.h"
#include "lib/storage/remote/store_environment.h"

namespace train::remote {
namespace {

namespace fs = arrow::fs;

constexpr StoreHints kGcsHints{
    "does the bucket exist?",
    "check the credentials (GOOGLE_APPLICATION_CREDENTIALS, gcloud auth application-default login, "
    "or the machine's service account) and their permissions",
    "is storage.googleapis.com (or STORAGE_EMULATOR_HOST, if set) reachable from there?"};

/// Return the message in {"error": {"message": "…"}}, or the beginning of any other body.
std::string message_of(const std::string& body) {
  boost::system::error_code ec;
  const boost::json::value value = boost::json::parse(body, ec);
  const auto* message = ec ? nullptr : value.find_pointer("/error/message", ec);
  return message != nullptr && message->is_string() ? std::string(message->as_string())
                                                    : body.substr(0, 200);
}

/// Where to send requests, and with which credentials.
struct Service {
  std::string base;                                // "https://storage.googleapis.com"
  std::shared_ptr<GoogleCredentials> credentials;  // null: an emulator
};

class GcsStore final : public ArrowStore {
 public:
  GcsStore(std::shared_ptr<fs::GcsFileSystem> files, const std::string& root, std::string url,
           Service service, const ObjectStoreOptions& options)
      : ArrowStore(std::move(files), root, std::move(url), ArrowTraits{kGcsHints, true, true}),
        bucket_(root.substr(0, root.find('/'))),
        prefix_(root.size() > bucket_.size() ? root.substr(bucket_.size() + 1) : ""),
        service_(std::move(service)),
        options_(options) {}

  Result<Unit> remove(const std::string& key) override {
    const auto removed = ask_for("DELETE", fmt::format("{}/storage/v1/b/{}/o/{}", service_.base,
                                                       bucket_, escaped(join_path(prefix_, key))));
    if (removed.has_error() && removed.error().code != Errc::NotFound) return removed.error();
    return Unit{};
  }
  Result<std::vector<ObjectStatus>> find(const std::string& prefix,
                                         std::size_t objects_max) override {
    const std::string whole = join_path(prefix_, prefix);
    TRY(auto objects, all_pages([&](const std::string& name) { return list_page(whole, name); },
                                objects_max, shown(prefix)));
    return below(prefix_, std::move(objects));
  }
  Result<std::optional<ObjectStatus>> status(const std::string& key) override {
    const std::string whole = join_path(prefix_, key);
    TRY(const ObjectsPage page, list_page(whole, ""));
    for (const ObjectStatus& object : page.objects) {
      if (object.key == whole)
        return std::optional(ObjectStatus{key, object.bytes, object.version});
    }
    return std::optional<ObjectStatus>();
  }
  Result<Unit> read_range(const RangeRead& range) override {
    const std::string url =
        fmt::format("{}/download/storage/v1/b/{}/o/{}?alt=media{}{}", service_.base, bucket_,
                    escaped(join_path(prefix_, range.key)),
                    range.version.empty() ? "" : "&ifGenerationMatch=", escaped(range.version));
    return read_range_until([&] { return request("GET", url); }, message_of, range,
                            shown(range.key), kGcsHints, options_);
  }

 private:
  /// Return a page of the objects whose keys in the bucket begin with `prefix`, in order.
  Result<ObjectsPage> list_page(const std::string& prefix, const std::string& name) {
    const std::string url =
        fmt::format("{}/storage/v1/b/{}/o?prefix={}{}{}", service_.base, bucket_, escaped(prefix),
                    name.empty() ? "" : "&pageToken=", escaped(name));
    return list_until([&] { return request("GET", url); }, message_of, parse_gcs_objects,
                      fmt::format("gs://{}/{}", bucket_, prefix), kGcsHints, options_);
  }

  // Send the request ourselves, since Arrow's filesystem has no preconditions. Generation 0 stands
  // for a missing object.
  Result<Unit> put_if_absent(const std::string& key, std::string_view bytes) override {
    TRY_VOID(ask_for("POST",
                     fmt::format("{}/upload/storage/v1/b/{}/"
                                 "o?uploadType=media&ifGenerationMatch=0&name={}",
                                 service_.base, bucket_, escaped(join_path(prefix_, key))),
                     bytes));
    return Unit{};
  }

  Result<std::string> ask_for(const char* method, const std::string& url,
                              std::string_view bytes = {}) {
    return ask_until([&] { return request(method, url, bytes); }, message_of, kGcsHints, options_);
  }

  Result<WebRequest> request(const char* method, const std::string& url,
                             std::string_view bytes = {}) {
    WebRequest made{method, url, {"Content-Type: application/octet-stream"}, bytes};
    if (service_.credentials == nullptr) return made;
    TRY(const std::string token, service_.credentials->token());
    made.headers.push_back("Authorization: Bearer " + token);
    return made;
  }

  const std::string bucket_, prefix_;
  const Service service_;
  const ObjectStoreOptions options_;
};

/// Return Arrow's options. Arrow requests and renews its own tokens.
fs::GcsOptions arrow_options(const std::string& emulator, const GoogleCredentials* credentials) {
  if (emulator.empty())
    return credentials->service_account().empty()
               ? fs::GcsOptions::Defaults()
               : fs::GcsOptions::FromServiceAccountCredentials(credentials->service_account());
  auto options = fs::GcsOptions::Anonymous();
  const auto scheme = emulator.find("://");
  options.scheme = scheme == std::string::npos ? "http" : emulator.substr(0, scheme);
  options.endpoint_override = scheme == std::string::npos ? emulator : emulator.substr(scheme + 3);
  return options;
}

}  // namespace

Result<std::shared_ptr<ObjectStore>> open_gcs(const std::string& url,
                                              const ObjectStoreOptions& options) {
  std::string emulator = variable(options, "STORAGE_EMULATOR_HOST");
  while (emulator.ends_with('/')) emulator.pop_back();
  Service service{"https://storage.googleapis.com", nullptr};
  if (emulator.empty()) {
    TRY(service.credentials, GoogleCredentials::find(options));
    // Without credentials, Google's client would silently search for them until the retry limit.
    TRY_VOID(insist(options, [&] { return service.credentials->token(); }));
  }
  fs::GcsOptions gcs = arrow_options(emulator, service.credentials.get());
  if (!emulator.empty()) service.base = fmt::format("{}://{}", gcs.scheme, gcs.endpoint_override);
  gcs.retry_limit_seconds = std::chrono::duration<double>(options.retry_timeout).count();
  auto files = fs::GcsFileSystem::Make(gcs);
  if (!files.ok()) return error_from(files.status(), "opening", url, kGcsHints);
  return std::make_shared<GcsStore>(*files, url.substr(std::string_view("gs://").size()), url,
                                    std::move(service), options);
}

}  // namespace train::remote
