// This file calls Hadoop's C library directly, in addition to Arrow's use of it. Arrow's Move
// replaces an existing target (after deleting it), but a commit needs a rename that does not
// replace. The functions are those of hdfs.h of Hadoop 2 and 3, found in the library that Arrow has
// loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/result.h"

namespace train::remote {

struct HdfsLocation {
  std::string host = "default";  // from the URL; "default": the cluster of core-site.xml
  std::uint16_t port = 0;        // 0: Hadoop's default, or a name service
  std::string user = {};         // empty: the user that Hadoop determines
};

/// A connection of its own, separate from Arrow's. Any thread may call. Calls block; Hadoop repeats
/// requests where it sees fit.
class LibHdfs {
 public:
  /// Connect, after Arrow has connected. Unavailable if the library is not Hadoop's or the NameNode
  /// cannot be reached.
  static Result<std::unique_ptr<LibHdfs>> connect(const HdfsLocation& location);
  ~LibHdfs();
  LibHdfs(const LibHdfs&) = delete;
  LibHdfs& operator=(const LibHdfs&) = delete;

  /// Rename in one atomic step of the NameNode. AlreadyExists, and nothing changes, if `to` is a
  /// file.
  Result<Unit> rename(const std::string& from, const std::string& to);
  Result<bool> exists(const std::string& path);
  /// Remove a file or an empty folder. NotFound if there is none.
  Result<Unit> remove(const std::string& path);

 private:
  struct Functions;
  LibHdfs() = default;
  Error error(std::string_view doing, const std::string& path) const;

  std::unique_ptr<const Functions> functions_;
  void* fs_ = nullptr;
};

}  // namespace train::remote
