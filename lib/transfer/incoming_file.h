// A file that comes in pieces, on its way to its place: written under a name that does not count,
// digested on the way, synced, and renamed once it is whole. Blocks; one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "lib/model/checkpoint_file.h"
#include "lib/storage/digest.h"
#include "lib/storage/file_system.h"

namespace train {

/// Whether `folder` has this file already, with this size and digest. Reads all of it.
bool is_there(FileSystem& fs, const std::string& folder, const CheckpointFile& wanted);

class IncomingFile {
 public:
  /// Into `folder`, whose folders are made. Several that bring the same file at a time have
  /// different numbers; what an earlier one of the same number left is replaced.
  IncomingFile(FileSystem& fs, std::string folder, CheckpointFile wanted, int number = 0);

  const CheckpointFile& wanted() const { return wanted_; }
  std::uint64_t written() const { return written_; }
  bool whole() const { return written_ == wanted_.bytes; }
  /// The bytes that follow those written so far.
  Result<Unit> write(std::string_view bytes);
  /// Once whole: Corrupt where the digest is another one; else it is safe under its name, but for
  /// the sync of its folder.
  Result<Unit> finish();
  /// Remove what is there of it.
  void abandon();

 private:
  Result<Unit> open();

  FileSystem& fs_;
  std::string folder_, target_, temporary_;
  CheckpointFile wanted_;
  std::unique_ptr<WritableFile> file_;
  Hasher hasher_;
  std::uint64_t written_ = 0;
};

}  // namespace train
