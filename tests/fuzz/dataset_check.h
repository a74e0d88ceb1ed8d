// Opens a dataset of one file with arbitrary bytes. It is refused, or each unit that is read has
// the number of rows that was counted when it was opened, and the columns of the schema.
// libFuzzer's limit bounds the memory.
#pragma once

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "lib/data/dataset_files.h"

namespace train::fuzz {

inline constexpr std::size_t kGroupsReadMax = 16;
inline constexpr std::int64_t kRowsReadMax = 1'000'000;

inline void require(bool holds) {
  if (!holds) std::abort();
}

inline void check_file(const std::string& path, train::data::FileFormat format) {
  train::data::FilesSpec spec;
  spec.format = format;
  spec.paths = {path};
  const auto source = train::data::open_files(spec);
  if (!source) return;
  const auto& rows = (*source)->unit_rows();
  for (std::size_t i = 0; i < rows.size() && i < kGroupsReadMax; ++i) {
    if (rows[i] > kRowsReadMax) continue;
    const auto group = (*source)->read(static_cast<std::int64_t>(i));
    if (!group) continue;
    require((*group)->num_rows() == rows[i]);
    require((*group)->schema()->Equals(*(*source)->schema(), /*check_metadata=*/false));
  }
}

inline void check_bytes(const std::uint8_t* data, std::size_t size, data::FileFormat format) {
  const int fd = ::memfd_create("dataset", MFD_CLOEXEC);
  require(fd >= 0 && ::write(fd, data, size) == static_cast<ssize_t>(size));
  check_file("/proc/self/fd/" + std::to_string(fd), format);
  ::close(fd);
}

}  // namespace train::fuzz
