#include "lib/storage/remote/s3_store.h"

#include <arrow/filesystem/s3fs.h>
#include <fmt/format.h>

#include <chrono>
#include <mutex>
#include <optional>

#include "lib/storage/remote/arrow_store.h"
#include "lib/storage/remote/retries.h"
#include "lib/storage/remote/s3_requests.h"
#include "lib/storage/remote/store_environment.h"

namespace train::remote {
namespace {

namespace fs = arrow::fs;

/// Repeats Arrow's requests in the same way as ours, and reports each repetition.
class ShownRetries final : public fs::S3RetryStrategy {
 public:
  explicit ShownRetries(const ObjectStoreOptions& options) : options_(options) {}

  bool ShouldRetry(const AWSErrorDetail& error, std::int64_t tries) override {
    if (!error.should_retry || !may_try_again(tries, options_.retry_timeout)) return false;
    if (options_.on_retry)
      options_.on_retry(fmt::format(
          "{}{}{}; trying again", error.exception_name,
          error.exception_name.empty() || error.message.empty() ? "" : ": ", error.message));
    return true;
  }
  // Arrow calls this before ShouldRetry, even for errors that are not worth a retry.
  std::int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, std::int64_t tries) override {
    return std::chrono::duration_cast<milliseconds>(with_chance(pause_before(tries))).count();
  }

 private:
  const ObjectStoreOptions options_;
};

/// Looks keys up at most twice a minute. Where there are none, each look may ask a service of the
/// machine that does not answer; keys that expire are renewed minutes before.
class KnownKeys {
 public:
  explicit KnownKeys(const fs::S3Options& options) : options_(options) {}

  S3Keys get() {
    const std::lock_guard lock(mutex_);
    const auto now = std::chrono::steady_clock::now();
    if (!keys_ || now - looked_at_ > kKeep) {
      keys_ = S3Keys{options_.GetAccessKey(), options_.GetSecretKey(), options_.GetSessionToken()};
      looked_at_ = now;
    }
    return *keys_;
  }

 private:
  static constexpr std::chrono::seconds kKeep{30};

  const fs::S3Options options_;
  std::mutex mutex_;
  std::optional<S3Keys> keys_;
  std::chrono::steady_clock::time_point looked_at_;
};

class S3Store final : public ArrowStore {
 public:
  S3Store(std::shared_ptr<fs::S3FileSystem> files, std::string root, std::string url,
          S3Requests requests, std::string prefix)
      : ArrowStore(std::move(files), std::move(root), std::move(url), ArrowTraits{kS3Hints}),
        requests_(std::move(requests)),
        prefix_(std::move(prefix)) {}

  Result<Unit> remove(const std::string& key) override {
    return requests_.remove(join_path(prefix_, key));
  }
  Result<std::vector<ObjectStatus>> find(const std::string& prefix,
                                         std::size_t objects_max) override {
    TRY(auto objects, requests_.find(join_path(prefix_, prefix), objects_max));
    return below(prefix_, std::move(objects));
  }
  Result<std::optional<ObjectStatus>> status(const std::string& key) override {
    TRY(auto object, requests_.status(join_path(prefix_, key)));
    if (object) object->key = key;
    return object;
  }
  Result<Unit> read_range(const RangeRead& range) override {
    RangeRead in_bucket = range;
    in_bucket.key = join_path(prefix_, range.key);
    return requests_.read_range(in_bucket);
  }
  Result<Unit> drop_unfinished(const std::string& folder,
                               const std::function<bool(const std::string& key)>& which) override {
    const std::string above = join_path(prefix_, "");
    TRY(const auto uploads, requests_.uploads(join_path(prefix_, folder) + "/"));
    for (const S3Upload& upload : uploads)
      if (upload.key.starts_with(above) && which(upload.key.substr(above.size())))
        TRY_VOID(requests_.abort(upload));
    return Unit{};
  }

 private:
  Result<Unit> put_if_absent(const std::string& key, std::string_view bytes) override {
    return requests_.put_new(join_path(prefix_, key), bytes);
  }

  const S3Requests requests_;
  const std::string prefix_;  // within the bucket
};

Result<Unit> start_s3() {
  static std::once_flag once;
  static arrow::Status started;
  std::call_once(once, [] {
    fs::S3GlobalOptions options = fs::S3GlobalOptions::Defaults();
    options.log_level = fs::S3LogLevel::Off;
    started = fs::InitializeS3(options);
  });
  if (!started.ok()) return error_from(started, "starting", "the S3 client", kS3Hints);
  return Unit{};
}

/// Split "http://127.0.0.1:5000" into scheme and endpoint.
Result<Unit> set_endpoint(const std::string& endpoint, fs::S3Options& options) {
  if (endpoint.empty()) return Unit{};
  const auto colon = endpoint.find("://");
  if (colon == std::string::npos)
    return Error{Errc::InvalidArgument,
                 fmt::format("AWS_ENDPOINT_URL '{}' has no scheme", endpoint),
                 "write http://host:port or https://host"};
  options.scheme = endpoint.substr(0, colon);
  options.endpoint_override = endpoint.substr(colon + 3);
  while (options.endpoint_override.ends_with('/')) options.endpoint_override.pop_back();
  return Unit{};
}

void set_keys(const ObjectStoreOptions& from, fs::S3Options& options) {
  const std::string access_key = variable(from, "AWS_ACCESS_KEY_ID");
  if (access_key.empty())
    options.ConfigureDefaultCredentials();
  else
    options.ConfigureAccessKey(access_key, variable(from, "AWS_SECRET_ACCESS_KEY"),
                               variable(from, "AWS_SESSION_TOKEN"));
}

}  // namespace

Result<std::shared_ptr<ObjectStore>> open_s3(const std::string& url,
                                             const ObjectStoreOptions& options) {
  const std::string root = url.substr(std::string_view("s3://").size());
  const std::string bucket = root.substr(0, root.find('/'));
  TRY_VOID(start_s3());
  fs::S3Options s3;
  s3.region = first_of(options, "AWS_REGION", "AWS_DEFAULT_REGION");
  if (s3.region.empty()) s3.region = "us-east-1";
  TRY_VOID(set_endpoint(first_of(options, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), s3));
  set_keys(options, s3);
  s3.connect_timeout = 10;
  s3.request_timeout = 60;
  s3.allow_delayed_open = true;
  s3.retry_strategy = std::make_shared<ShownRetries>(options);
  auto files = fs::S3FileSystem::Make(s3);
  if (!files.ok()) return error_from(files.status(), "opening", url, kS3Hints);
  S3Requests requests(
      {s3.scheme, s3.endpoint_override, s3.region, bucket},
      [keys = std::make_shared<KnownKeys>(s3)] { return keys->get(); }, options);
  const std::string prefix = root.size() > bucket.size() ? root.substr(bucket.size() + 1) : "";
  return std::make_shared<S3Store>(*files, root, url, std::move(requests), prefix);
}

void stop_s3() {
  if (fs::IsS3Initialized() && !fs::IsS3Finalized()) (void)fs::FinalizeS3();
}

}  // namespace train::remote
