// Reads a file of samples line by line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

/// Pass each whole line of the file to `take`, without its line end, and where it begins. Lines of
/// more than kSampleLineBytesMax are passed over, and so is what follows kSampleFileBytesMax. No
/// file has no lines; Io if it cannot be read, or is no regular file. Blocks.
Result<Unit> for_each_line(const std::string& path,
                           const std::function<void(std::string_view, std::uint64_t)>& take);
/// The same for a file that is open; `path` is for errors.
Result<Unit> for_each_line(const FileDescriptor& file, const std::string& path,
                           const std::function<void(std::string_view, std::uint64_t)>& take);

}  // namespace train
