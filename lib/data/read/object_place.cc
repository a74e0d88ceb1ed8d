#include "lib/data/read/object_place.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "lib/base/store_url.h"
#include "lib/data/read/fetcher.h"

namespace train::data {

Result<ObjectUrl> split_url(const std::string& url) {
  const StoreScheme* scheme = store_scheme(url);
  if (scheme == nullptr)
    return Error{Errc::InvalidArgument, fmt::format("{}: no such kind of storage", url),
                 "use s3://, gs://, hdfs:// or a path"};
  const std::size_t slash = url.find('/', scheme->prefix.size());
  const std::string root = url.substr(0, slash) + "/";
  if (scheme->names_bucket ? root.size() <= scheme->prefix.size() + 1 : slash == std::string::npos)
    return Error{Errc::InvalidArgument,
                 fmt::format("{} names no {}", url, scheme->names_bucket ? "bucket" : "folder"),
                 std::string(scheme->how)};
  return ObjectUrl{root, slash == std::string::npos ? "" : url.substr(slash + 1)};
}

Result<std::shared_ptr<const ObjectPlace>> open_place(const std::string& root,
                                                      const StoreWish& wish) {
  static std::mutex mutex;
  // Never destroyed: threads may still read when main returns.
  static auto& open = *new std::map<std::string, std::shared_ptr<const ObjectPlace>>;
  const std::lock_guard lock(mutex);
  auto& place = open[root];
  if (place) return place;
  TRY(auto store,
      open_object_store(root, {.retry_timeout = wish.retry_timeout, .on_retry = wish.on_retry}));
  end_fetches_at_exit();
  place = std::make_shared<ObjectPlace>(root, std::move(store));
  return place;
}

}  // namespace train::data
