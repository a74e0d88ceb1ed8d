#include "sdk/client/file_digest.h"

#include "lib/storage/staged_files.h"

namespace train::sdk {

struct FileDigest::State {
  Hasher hasher;
  std::uint64_t bytes = 0;
};

FileDigest::FileDigest() : state_(std::make_unique<State>()) {}
FileDigest::~FileDigest() = default;

void FileDigest::update(std::string_view bytes) {
  state_->hasher.update(bytes);
  state_->bytes += bytes.size();
}

std::string FileDigest::line(const std::string& path) const {
  return staged_digest_line({path, state_->bytes, state_->hasher.digest()});
}

std::string digests_file() { return kStagedDigestsName; }

}  // namespace train::sdk
