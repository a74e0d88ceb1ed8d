// Files of a folder that a peer may name: never one outside it, whatever links somebody has put
// there.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace train {

/// A file descriptor that closes itself.
class FileHandle {
 public:
  explicit FileHandle(int fd = -1) : fd_(fd) {}
  FileHandle(FileHandle&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  FileHandle& operator=(FileHandle&& other) noexcept;
  ~FileHandle();
  int get() const { return fd_; }

 private:
  int fd_;
};

/// Open the plain file `relative` below the folder `base` for reading. `base` is ours; no component
/// below it may be a link, or lead up. NotFound, or InvalidArgument for what is no plain file
/// there.
Result<FileHandle> open_beneath(const std::string& base, const std::string& relative);

struct FilePiece {
  std::string data;
  std::uint64_t size = 0;  // of the whole file
};
/// Up to `bytes` of it from `offset` on; fewer only at its end. Blocks.
Result<FilePiece> read_beneath(const std::string& base, const std::string& relative,
                               std::uint64_t offset, std::size_t bytes);

}  // namespace train
