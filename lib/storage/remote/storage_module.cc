#include "lib/storage/storage_module.h"

#include <fmt/format.h>

#include "lib/storage/remote/s3_store.h"

namespace train::remote {
namespace {

Result<std::shared_ptr<ObjectStore>> open_store(const std::string& url,
                                                const ObjectStoreOptions& options) {
  std::string place = url;
  while (place.ends_with('/')) place.pop_back();
  const auto name = place.find("://");
  if (name == std::string::npos || place.size() <= name + 3 || place[name + 3] == '/')
    return Error{Errc::InvalidArgument, fmt::format("'{}' names no bucket", url),
                 "write s3://bucket/folder"};
  if (place.starts_with("s3://")) return open_s3(place, options);
  return Error{Errc::InvalidArgument, fmt::format("'{}': no such kind of storage", url),
               "use a folder, or s3://bucket/folder"};
}

}  // namespace
}  // namespace train::remote

extern "C" __attribute__((visibility("default"))) void trainrun_open_object_store(
    const std::string& url, const train::ObjectStoreOptions& options,
    train::Result<std::shared_ptr<train::ObjectStore>>* opened) {
  *opened = train::remote::open_store(url, options);
}

extern "C" __attribute__((visibility("default"))) void trainrun_close_object_stores() {
  train::remote::stop_s3();
}
