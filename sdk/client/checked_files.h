// Files of a checkpoint, or of any folder, read once from their beginning to their end: straight to
// where the bytes are wanted, and digested on the way where a manifest says what they must be. Used
// by sdk/client and sdk/torch. Errors are thrown as Failure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace train {
struct ManifestFile;
}

namespace train::sdk {

/// One file. Not thread-safe.
class FileScan {
 public:
  /// Of a folder without a manifest: nothing is digested.
  explicit FileScan(std::string path);
  FileScan(FileScan&&) noexcept;
  FileScan& operator=(FileScan&&) = delete;
  ~FileScan();

  const std::string& path() const;
  std::uint64_t bytes() const;
  /// Bytes [begin, end) into `to`. In ascending order each byte of the file is read once; what lies
  /// before `begin` and was not read yet is read to be digested.
  void read(std::uint64_t begin, std::uint64_t end, char* to);
  /// Read the rest. Throws Failure("corrupt") unless all is as the manifest says; what read() gave
  /// counts only now.
  void finish();

 private:
  friend class CheckedFiles;
  struct State;
  explicit FileScan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// A folder's files. Any thread.
class CheckedFiles {
 public:
  /// Any folder: nothing is digested.
  explicit CheckedFiles(std::string folder);
  /// A committed checkpoint's.
  CheckedFiles(std::string folder, std::vector<ManifestFile> files);
  ~CheckedFiles();

  const std::string& folder() const;
  std::string path_of(const std::string& name) const;
  /// Whether the file is there; of a checkpoint: whether it belongs to it.
  bool has(const std::string& name) const;
  FileScan open(const std::string& name) const;
  /// A small file, whole.
  std::string read(const std::string& name) const;
  /// Those of the manifest that no scan has verified yet, for whoever reads them by himself.
  void verify_rest() const;

 private:
  friend class FileScan;
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace train::sdk
