// A file that arrives in pieces. It is written under a temporary name, digested at the same time,
// synced, and renamed once it is whole. Calls block; one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "lib/model/checkpoint_file.h"
#include "lib/storage/digest.h"
#include "lib/storage/file_system.h"

namespace train {

/// Return whether `folder` already has this file with this size and digest. Reads all of it.
bool is_there(FileSystem& fs, const std::string& folder, const CheckpointFile& wanted);

class IncomingFile {
 public:
  /// Prepare to write the file into `folder`; missing folders are created. Objects that write the
  /// same file at the same time need different numbers. What an earlier object with the same number
  /// left behind is replaced.
  IncomingFile(FileSystem& fs, std::string folder, CheckpointFile wanted, int number = 0);

  const CheckpointFile& wanted() const { return wanted_; }
  std::uint64_t written() const { return written_; }
  bool complete() const { return written_ == wanted_.bytes; }
  /// Write the bytes that follow those written so far.
  Result<Unit> write(std::string_view bytes);
  /// Finish the file once it is whole. Corrupt if the digest differs; else the file has its name.
  /// If it is to be `durable`, it is synced before, but its folder is not synced yet.
  Result<Unit> finish(bool durable);
  /// Remove what has been written of it.
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
