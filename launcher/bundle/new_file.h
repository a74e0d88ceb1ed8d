// A new file that gets its name once it is complete. Until then it has none (O_TMPFILE), so nothing
// is left however this process ends. On file systems that lack such files (NFS), it is a draft,
// PATH.PID.tmp, which a signal that ends this process removes, except SIGKILL. Calls block.
#pragma once

#include <string>
#include <utility>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

class NewFile {
 public:
  /// Opens a file without a name in a folder, for writing by its owner: a descriptor, or −1 and
  /// errno.
  using OpenNameless = int (*)(const char* folder);
  static int open_nameless(const char* folder);

  /// Create the file, readable by its owner only. One process has one draft at a time.
  static Result<NewFile> create(const std::string& path, OpenNameless open = open_nameless);

  NewFile(NewFile&& other) noexcept
      : path_(std::move(other.path_)),
        draft_(std::exchange(other.draft_, {})),
        file_(std::move(other.file_)) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile();  // removes the draft

  int fd() const { return file_.get(); }
  const std::string& path() const { return path_; }
  /// Sync it, and give it its name. AlreadyExists if another file has that.
  Result<Unit> publish();

 private:
  NewFile(std::string path, std::string draft, FileDescriptor file)
      : path_(std::move(path)), draft_(std::move(draft)), file_(std::move(file)) {}
  static Result<NewFile> create_draft(const std::string& path);

  std::string path_;
  std::string draft_;  // empty: the file has no name
  FileDescriptor file_;
};

}  // namespace train
