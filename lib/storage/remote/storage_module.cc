#include "lib/storage/storage_module.h"

#include <fmt/format.h>

#include "lib/storage/remote/gcs_store.h"
#include "lib/storage/remote/hdfs_store.h"
#include "lib/storage/remote/retries.h"
#include "lib/storage/remote/s3_store.h"

namespace train::remote {
namespace {

Result<std::shared_ptr<ObjectStore>> open_store(const std::string& url,
                                                const ObjectStoreOptions& options) {
  const StoreScheme* scheme = store_scheme(url);
  if (scheme == nullptr)
    return Error{Errc::InvalidArgument, fmt::format("'{}': no such kind of storage", url),
                 "use a folder, s3://bucket/folder, gs://bucket/folder or hdfs://namenode/folder"};
  std::string location = url;
  // The root of HDFS keeps its '/'.
  while (location.size() > scheme->prefix.size() && location.ends_with('/') &&
         (scheme->names_bucket || location.find('/', scheme->prefix.size()) + 1 < location.size()))
    location.pop_back();
  if (const std::string_view mistake = mistake_in(*scheme, location); !mistake.empty())
    return Error{Errc::InvalidArgument, fmt::format("'{}' {}", url, mistake),
                 std::string(scheme->how)};
  if (location.starts_with("s3://")) return open_s3(location, options);
  return location.starts_with("gs://") ? open_gcs(location, options) : open_hdfs(location, options);
}

}  // namespace
}  // namespace train::remote

extern "C" __attribute__((visibility("default"))) void trainrun_open_object_store_2(
    const std::string& url, const train::ObjectStoreOptions& options,
    train::Result<std::shared_ptr<train::ObjectStore>>* opened) {
  *opened = train::remote::open_store(url, options);
}

extern "C" __attribute__((visibility("default"))) void trainrun_close_object_stores() {
  train::remote::no_more_tries = true;
  train::remote::stop_s3();
}
