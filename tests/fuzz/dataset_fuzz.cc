// Reads a Parquet file of arbitrary bytes. It is refused, or each row group read has the number of
// rows in the footer and the columns of the schema. libFuzzer's limit bounds the memory.
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/data/dataset_files.h"

namespace {

constexpr std::size_t kGroupsReadMax = 16;
constexpr std::int64_t kRowsReadMax = 1'000'000;

void require(bool holds) {
  if (!holds) std::abort();
}

void check_file(const std::string& path) {
  const auto source = train::data::open_files({.path = path, .columns = {}});
  if (!source) return;
  const auto& rows = (*source)->group_rows();
  for (std::size_t i = 0; i < rows.size() && i < kGroupsReadMax; ++i) {
    if (rows[i] > kRowsReadMax) continue;
    const auto group = (*source)->read(static_cast<std::int64_t>(i));
    if (!group) continue;
    require((*group)->num_rows() == rows[i]);
    require((*group)->schema()->Equals(*(*source)->schema(), /*check_metadata=*/false));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int fd = ::memfd_create("dataset", MFD_CLOEXEC);
  require(fd >= 0 && ::write(fd, data, size) == static_cast<ssize_t>(size));
  check_file("/proc/self/fd/" + std::to_string(fd));
  ::close(fd);
  return 0;
}
