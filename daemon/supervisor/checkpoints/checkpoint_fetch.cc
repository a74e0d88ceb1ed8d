#include "daemon/supervisor/checkpoints/checkpoint_fetch.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "lib/storage/checkpoint_export.h"
#include "lib/storage/object_checkpoint.h"

namespace train {
namespace {

Result<std::string> pull(const std::string& url, const std::string& folder,
                         const ObjectStoreOptions& options) {
  TRY(auto checkpoint, open_object_checkpoint(url, options));
  PosixFileSystem files;
  auto pulled = pull_checkpoint(*checkpoint.files, checkpoint.folder, files, folder);
  if (pulled.has_error()) return std::move(pulled).error().with_context("fetching " + url);
  return folder;
}

}  // namespace

Task<std::string> fetch_checkpoint(boost::asio::thread_pool& pool, std::string url,
                                   std::string folder, ObjectStoreOptions options) {
  auto pulled = co_await asio::co_spawn(
      pool,
      [](std::string from, std::string to,
         ObjectStoreOptions with) -> asio::awaitable<std::optional<Result<std::string>>> {
        co_return pull(from, to, with);
      }(std::move(url), std::move(folder), std::move(options)),
      asio::use_awaitable);
  co_return std::move(*pulled);
}

}  // namespace train
