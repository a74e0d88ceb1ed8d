// What a node would run for a job: digests of the program's files, and what they lack there. Nodes
// of one attempt are compared by it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lib/model/fields.h"

namespace train {

/// How many files of a program are compared; its further ones are not.
inline constexpr std::size_t kDigestFilesMax = 512;

struct FileDigest {
  std::string name = {};    // the path, or a library's soname
  std::string path = {};    // where it was found
  std::string digest = {};  // of its content; empty: it could not be read
  bool operator==(const FileDigest&) const = default;
  TRAIN_FIELDS(name, path, digest)
};

struct MissingLibrary {
  std::string soname = {}, needed_by = {};
  bool operator==(const MissingLibrary&) const = default;
  TRAIN_FIELDS(soname, needed_by)
};

struct NodeDigests {
  std::vector<FileDigest> files = {};  // the executable first; by name, each once
  std::vector<MissingLibrary> missing = {};
  std::string driver = {}, nccl = {};  // versions; empty: there is none, or it is not known
  bool operator==(const NodeDigests&) const = default;
  TRAIN_FIELDS(files, missing, driver, nccl)
};

/// What a supervisor needs to find the program as it will start it.
struct DigestOrder {
  std::vector<std::string> command = {};  // empty: no digests are wanted
  std::string working_dir = {};
  std::string path = {}, library_path = {};  // PATH and LD_LIBRARY_PATH of the workers
  bool operator==(const DigestOrder&) const = default;
  TRAIN_FIELDS(command, working_dir, path, library_path)
};

}  // namespace train
