// The requests to S3 that Arrow's filesystem cannot make: a PUT on the condition that the key is
// free, a DELETE that leaves no folder marker behind, and requests about abandoned multipart
// uploads. libcurl signs them (SigV4).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/storage/remote/http_request.h"
#include "lib/storage/remote/s3_uploads.h"

namespace train::remote {

inline constexpr StoreHints kS3Hints{
    "does the bucket exist, under this endpoint (AWS_ENDPOINT_URL) and region?",
    "check the credentials (AWS_ACCESS_KEY_ID, AWS_PROFILE, or the machine's role) and their "
    "permissions",
    "is the endpoint (AWS_ENDPOINT_URL) reachable from there?"};

struct S3Keys {
  std::string access_key, secret_key, session_token;
};

struct S3Place {
  std::string scheme = "https";
  std::string endpoint;  // "127.0.0.1:5000"; empty: Amazon's, for the region
  std::string region;
  std::string bucket;
};

class S3Requests {
 public:
  /// `keys` is called before each request, since the keys of a machine's role expire.
  S3Requests(S3Place location, std::function<S3Keys()> keys, const ObjectStoreOptions& options)
      : location_(std::move(location)), keys_(std::move(keys)), options_(options) {}

  /// Put a new object. AlreadyExists (412) if the key is taken.
  Result<Unit> put_new(const std::string& key, std::string_view bytes) const;
  Result<Unit> remove(const std::string& key) const;
  /// Keys are those of the bucket. See ObjectStore.
  Result<std::vector<ObjectStatus>> find(const std::string& prefix, std::size_t objects_max) const;
  Result<std::optional<ObjectStatus>> status(const std::string& key) const;
  Result<Unit> read_range(const RangeRead& range) const;
  /// Return all uploads that are neither completed nor aborted (ListMultipartUploads). Tries once,
  /// like abort().
  Result<std::vector<S3Upload>> uploads(const std::string& prefix) const;
  Result<Unit> abort(const S3Upload& upload) const;

 private:
  WebRequest request(const char* method, const std::string& url) const;
  Result<ObjectsPage> list_page(const std::string& prefix, const std::string& name,
                                std::size_t objects) const;
  std::string shown(const std::string& key) const;
  Error explained(Error error) const;
  Result<std::string> ask_about_uploads(const char* method, const std::string& key,
                                        const std::string& query) const;
  std::string url_of(const std::string& key) const;

  const S3Place location_;
  const std::function<S3Keys()> keys_;
  const ObjectStoreOptions options_;
};

}  // namespace train::remote
