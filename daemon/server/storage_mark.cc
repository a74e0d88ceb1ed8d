#include "daemon/server/storage_mark.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/write_all.h"

namespace train {

StorageMark::StorageMark(const std::string& storage, std::string mark, int rank)
    : folder_(storage + "/.check-" + mark), mark_(std::move(mark)), rank_(rank) {}

StorageMark::~StorageMark() {
  remove_file();
  ::rmdir(folder_.c_str());  // that of the last one does it
}

std::string StorageMark::file_of(int rank) const { return fmt::format("{}/{}", folder_, rank); }

std::string StorageMark::write() {
  if (::mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(errno, "making a folder").message;
  const FileDescriptor file(
      ::open(file_of(rank_).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return system_error(errno, "making a file").message;
  made_ = true;
  const auto written = write_all(file.get(), mark_, "the file");
  if (!written) return written.error().message;
  return ::fsync(file.get()) == 0 ? "" : system_error(errno, "syncing a file").message;
}

bool StorageMark::sees(int rank) const { return ::access(file_of(rank).c_str(), R_OK) == 0; }

void StorageMark::remove_file() {
  if (std::exchange(made_, false)) ::unlink(file_of(rank_).c_str());
}

}  // namespace train
