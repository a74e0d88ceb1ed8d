// This file opens files in a folder that a peer may name, and never a file outside it, whatever
// links somebody has put there.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Open the plain file `relative` below the folder `base` for reading. `base` is ours; no component
/// below it may be a link or lead upwards. NotFound, or InvalidArgument if something other than a
/// plain file is there.
Result<FileDescriptor> open_beneath(const std::string& base, const std::string& relative);

struct FilePiece {
  std::string data;
  std::uint64_t size = 0;  // of the whole file
};
/// Read up to `bytes` of the file from `offset` on; fewer only at its end. Blocks.
Result<FilePiece> read_beneath(const std::string& base, const std::string& relative,
                               std::uint64_t offset, std::size_t bytes);

}  // namespace train
