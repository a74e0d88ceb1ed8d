// Hadoop's C library, beside Arrow's use of it: Arrow's Move replaces what has the name (it deletes
// it first), and a commit needs a rename that does not. The functions are those of hdfs.h of Hadoop
// 2 and 3, found in the library that Arrow has loaded.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lib/base/result.h"

namespace train::remote {

struct HdfsPlace {
  std::string host = "default";  // of an URL; "default": the cluster of core-site.xml
  std::uint16_t port = 0;        // 0: Hadoop's default, or a name service
  std::string user = {};         // empty: who Hadoop thinks we are
};

/// A connection of its own. Any thread may call; calls block, and Hadoop repeats what it finds
/// worth repeating.
class LibHdfs {
 public:
  /// After Arrow has connected. Unavailable: the library, or the NameNode, is not there.
  static Result<std::unique_ptr<LibHdfs>> connect(const HdfsPlace& place);
  ~LibHdfs();
  LibHdfs(const LibHdfs&) = delete;
  LibHdfs& operator=(const LibHdfs&) = delete;

  /// AlreadyExists, and nothing is changed, where `to` is a file. One atomic step of the NameNode.
  Result<Unit> rename(const std::string& from, const std::string& to);
  Result<bool> exists(const std::string& path);
  /// A file, or an empty folder; NotFound.
  Result<Unit> remove(const std::string& path);

 private:
  struct Functions;
  LibHdfs() = default;
  Error error(std::string_view doing, const std::string& path) const;

  std::unique_ptr<const Functions> functions_;
  void* fs_ = nullptr;
};

}  // namespace train::remote
