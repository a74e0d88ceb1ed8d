// The folder that `data convert` fills. A file appears in it by a rename, when it is whole and on
// the disk; until then it has a name that begins with a dot, which readers of datasets pass over.
// The file .trainrun-convert.json says which conversion the folder belongs to, so that the same
// command goes on where it was stopped, and another one is refused.
#pragma once

#include <train/config.h>

#include <cstdint>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

class ConvertFolder {
 public:
  struct Files {
    std::int64_t count = 0;
    std::string ending;  // "parquet"
  };

  /// Make the folder, or go on in one of the same conversion, and lock it while this object lives.
  /// `conversion` is what identifies it. AlreadyExists if the folder has other contents, belongs to
  /// another conversion, or another process is filling it.
  static Result<ConvertFolder> open(const std::string& path, const Dict& conversion,
                                    const Files& files);

  /// Return whether the file is there.
  Result<bool> has(std::int64_t file) const;
  /// Begin a file anew.
  Result<FileDescriptor> begin(std::int64_t file) const;
  std::string partial_path(std::int64_t file) const;
  /// Bring the file onto the disk and give it its name. Return its bytes.
  Result<std::int64_t> commit(std::int64_t file, FileDescriptor fd) const;
  /// Remove what was written of a file that will not be whole.
  void discard(std::int64_t file) const;

 private:
  ConvertFolder(std::string path, Files files) : path_(std::move(path)), files_(std::move(files)) {}
  std::string name_of(std::int64_t file) const;
  std::string path_of(const std::string& name) const { return path_ + "/" + name; }
  Result<Unit> check_contents(bool ours) const;
  bool is_ours(const std::string& name) const;
  Result<Unit> write_conversion(const std::string& text) const;
  Result<Unit> sync_folder() const;

  std::string path_;
  Files files_;
  FileDescriptor lock_;
};

}  // namespace train
