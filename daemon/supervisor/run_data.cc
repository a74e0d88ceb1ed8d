#include "daemon/supervisor/run_data.h"

#include "lib/storage/own_folder.h"

namespace train {

Result<Unit> make_run_data(FileSystem& fs, const std::string& folder) {
  TRY_VOID(make_folders(fs, parent_path(folder)));
  const auto made = make_own_folder(folder);
  if (!made && made.error().code != Errc::AlreadyExists) return made.error();
  return check_private_folder(folder);
}

}  // namespace train
