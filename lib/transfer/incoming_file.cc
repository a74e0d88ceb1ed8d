#include "lib/transfer/incoming_file.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {
namespace {

constexpr std::size_t kReadBytes = 1u << 20;

Result<Digest> digest_of_file(FileSystem& fs, const std::string& path, std::uint64_t bytes) {
  TRY(auto file, fs.open_to_read(path));
  std::string buffer(std::clamp<std::uint64_t>(bytes, 1, kReadBytes), '\0');
  Hasher hasher;
  for (;;) {
    TRY(const std::size_t got, file->read(buffer.data(), buffer.size()));
    if (got == 0) return hasher.digest();
    hasher.update({buffer.data(), got});
  }
}

}  // namespace

bool is_there(FileSystem& fs, const std::string& folder, const CheckpointFile& wanted) {
  const std::string path = join_path(folder, wanted.path);
  const auto status = fs.status(path);
  if (!status || status->kind != FileKind::File || status->bytes != wanted.bytes) return false;
  const auto digest = digest_of_file(fs, path, wanted.bytes);
  return digest && *digest == wanted.digest;
}

IncomingFile::IncomingFile(FileSystem& fs, std::string folder, CheckpointFile wanted, int number)
    : fs_(fs),
      folder_(std::move(folder)),
      target_(join_path(folder_, wanted.path)),
      // Beside the target, so that a rename is enough; users' files never begin with a dot.
      temporary_(join_path(parent_path(target_),
                           fmt::format(".fetch-{:016x}", digest64_of(wanted.path) +
                                                             static_cast<std::uint64_t>(number)))),
      wanted_(std::move(wanted)) {}

Result<Unit> IncomingFile::open() {
  TRY_VOID(make_folders(fs_, parent_path(target_)));
  if (auto removed = fs_.remove_file(temporary_);
      removed.has_error() && removed.error().code != Errc::NotFound)
    return removed.error();
  TRY(file_, fs_.create(temporary_));
  return Unit{};
}

Result<Unit> IncomingFile::write(std::string_view bytes) {
  if (!file_) TRY_VOID(open());
  TRY_VOID(file_->write(bytes));
  hasher_.update(bytes);
  written_ += bytes.size();
  return Unit{};
}

Result<Unit> IncomingFile::finish(bool durable) {
  if (!file_) TRY_VOID(open());  // an empty file
  const Digest found = hasher_.digest();
  if (written_ != wanted_.bytes || found != wanted_.digest)
    return Error{
        Errc::Corrupt,
        fmt::format("'{}' came with {} bytes and xxh3-128 {}, expected {} bytes and {}",
                    wanted_.path, written_, to_hex(found), wanted_.bytes, to_hex(wanted_.digest))};
  if (durable) TRY_VOID(file_->sync());
  file_.reset();
  return fs_.rename(temporary_, target_);
}

void IncomingFile::abandon() {
  file_.reset();
  (void)fs_.remove_file(temporary_);
}

}  // namespace train
