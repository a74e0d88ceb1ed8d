// This file opens files by names from a peer, but never a file outside the given folder, whatever
// links somebody has put there.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Open the plain file `relative` below the folder `base` for reading. `base` is trusted; no
/// component below it may be a link or lead upwards. NotFound if there is no such file;
/// InvalidArgument if the path is not allowed or is not a plain file.
Result<FileDescriptor> open_beneath(const std::string& base, const std::string& relative);

struct FilePiece {
  std::string data;
  std::uint64_t size = 0;  // of the whole file
};
/// Read up to `bytes` of the file from `offset` on; fewer only at its end. Blocks.
Result<FilePiece> read_beneath(const std::string& base, const std::string& relative,
                               std::uint64_t offset, std::size_t bytes);

}  // namespace train
