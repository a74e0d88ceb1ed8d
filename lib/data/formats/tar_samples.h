// The samples of a WebDataset archive: the neighbouring members whose names are equal up to the
// first dot of their last part. `cat/0007.jpg` and `cat/0007.cls` are the fields jpg and cls of the
// sample cat/0007.
#pragma once

#include <unordered_set>
#include <vector>

#include "lib/data/formats/tar_reader.h"

namespace train::data {

struct TarField {
  std::string name = {};  // what follows the dot, in small letters: jpg, cls, seg.png
  std::int64_t content_at = 0, size = 0;
};

struct TarSample {
  std::string key = {};
  std::vector<TarField> fields = {};  // in the order of the archive
  std::int64_t begin = 0, end = 0;    // the archive's bytes that hold it

  const TarField* field(std::string_view name) const;
};

class TarSamples {
 public:
  explicit TarSamples(TarReader reader) : reader_(std::move(reader)) {}

  /// Return the next sample, or nothing after the last. An error, beside those of the archive, if a
  /// key comes again after others, if a field comes twice, and if a sample is larger than 1 GiB.
  Result<std::optional<TarSample>> next();
  Result<Unit> check_end() const { return reader_.check_end(); }

 private:
  Result<Unit> add(const TarMember& member, std::string field);

  TarReader reader_;
  TarSample sample_ = {};                      // that the last member belongs to
  std::unordered_set<std::size_t> keys_ = {};  // hashes of those of earlier samples
};

}  // namespace train::data
