#include "daemon/supervisor/checkpoints/checkpoint_fetch.h"

#include "lib/storage/checkpoint_export.h"
#include "lib/storage/object_checkpoint.h"
#include "lib/storage/posix_file_system.h"

namespace train {

Result<std::string> fetch_checkpoint(const std::string& url, const std::string& folder,
                                     const ObjectStoreOptions& options) {
  TRY(auto checkpoint, open_object_checkpoint(url, options));
  PosixFileSystem files;
  auto pulled = pull_checkpoint(*checkpoint.files, checkpoint.folder, files, folder);
  if (pulled.has_error()) return std::move(pulled).error().with_context("fetching " + url);
  return folder;
}

}  // namespace train
