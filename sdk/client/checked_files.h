// Reads the files of a checkpoint, or of any folder, each once from beginning to end: reads the
// bytes directly to where they are wanted, and digests them on the way if a manifest says what they
// must be. sdk/client and sdk/torch use this. Throws errors as Failure.
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
  /// Open a file of a folder without a manifest: nothing is digested.
  explicit FileScan(std::string path);
  FileScan(FileScan&&) noexcept;
  FileScan& operator=(FileScan&&) = delete;
  ~FileScan();

  const std::string& path() const;
  std::uint64_t bytes() const;
  /// Read bytes [begin, end) into `to`. Calls in ascending order read each byte of the file only
  /// once. With a manifest, skipped bytes before `begin` are read as well, to digest them.
  void read(std::uint64_t begin, std::uint64_t end, char* to);
  /// Read the rest of a file that has a digest. Throws Failure("corrupt") unless the digest is that
  /// of the manifest. What read() returned is valid only after this.
  void finish();

 private:
  friend class CheckedFiles;
  struct State;
  explicit FileScan(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The files of a folder. Any thread may use it.
class CheckedFiles {
 public:
  /// Use any folder: nothing is digested.
  explicit CheckedFiles(std::string folder);
  /// Use a committed checkpoint's folder.
  CheckedFiles(std::string folder, std::vector<ManifestFile> files);
  ~CheckedFiles();

  const std::string& folder() const;
  std::string path_of(const std::string& name) const;
  /// Return whether the file exists; in a checkpoint, whether the manifest lists it.
  bool has(const std::string& name) const;
  FileScan open(const std::string& name) const;
  /// Return the contents of a small file.
  std::string read(const std::string& name) const;
  /// Verify the manifest's files that no scan has verified yet, for callers that read them on their
  /// own.
  void verify_rest() const;

 private:
  friend class FileScan;
  struct State;
  const std::shared_ptr<State> state_;
};

}  // namespace train::sdk
