// The members of a tar archive in the order in which they stand in it (ustar, pax and GNU; read
// with libarchive, which is loaded on demand, as it needs libxml2 and ICU). Anybody may have
// written the archive: its names are only text, and nothing is unpacked to the disk.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/data/read/data_file.h"

namespace train::data {

struct TarMember {
  std::string name = {};
  bool regular = true;          // not a folder, a link, …
  std::int64_t content_at = 0;  // the archive's byte at which its content begins
  std::int64_t size = 0;        // of its content
  std::int64_t end = 0;         // the byte at which the next member's header begins
};

class TarReader {
 public:
  /// Walk the headers of an uncompressed file.
  static Result<TarReader> open(const DataFile& file);
  /// Walk those of an archive in memory, which must outlive the reader.
  static Result<TarReader> over(std::string_view bytes);
  TarReader(TarReader&&) noexcept;
  ~TarReader();

  /// Return the next member, or nothing after the last. An error for what is no archive, for one
  /// that is cut, and for members with holes.
  Result<std::optional<TarMember>> next();
  /// Check, after the last member, that the archive has the mark of its end. One that lacks it may
  /// have lost members.
  Result<Unit> check_end() const;

 private:
  struct Open;
  explicit TarReader(std::unique_ptr<Open> open);

  std::unique_ptr<Open> open_;
};

}  // namespace train::data
