#include "lib/data/formats/text_bytes.h"

#include <arrow/buffer.h>
#include <arrow/io/compressed.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/compression.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

constexpr std::int64_t kPieceBytes = 1 << 20;

int compression_of(std::string_view path) {
  if (path.ends_with(".gz") || path.ends_with(".tgz")) return arrow::Compression::GZIP;
  if (path.ends_with(".zst")) return arrow::Compression::ZSTD;
  if (path.ends_with(".bz2")) return arrow::Compression::BZ2;
  return arrow::Compression::UNCOMPRESSED;
}

}  // namespace

static_assert(arrow::Compression::UNCOMPRESSED == 0);

TextBytes::TextBytes(DataFile file)
    : file_(std::move(file)), compression_(compression_of(file_.path)) {}

Result<std::shared_ptr<arrow::io::InputStream>> TextBytes::open() const {
  ARROW_TRY(std::shared_ptr<arrow::io::InputStream> input, "cannot open it", open_stream(file_));
  if (!compressed()) return input;
  ARROW_TRY(const auto codec, "cannot unpack it",
            arrow::util::Codec::Create(static_cast<arrow::Compression::type>(compression_)));
  ARROW_TRY(std::shared_ptr<arrow::io::InputStream> text, "cannot unpack it",
            arrow::io::CompressedInputStream::Make(codec.get(), input));
  return text;
}

Result<Unit> TextBytes::read_all(const std::function<Result<Unit>(std::string_view)>& take) const {
  TRY(const auto text, open());
  while (true) {
    ARROW_TRY(const auto piece, "cannot read it", text->Read(kPieceBytes));
    if (piece->size() == 0) return Unit{};
    TRY_VOID(take(std::string_view(*piece)));
  }
}

void TextBytes::expect(std::int64_t offset, std::int64_t length) const {
  if (!compressed()) expect_reads(file_, {{.offset = offset, .bytes = length}});
}

Result<std::shared_ptr<arrow::Buffer>> TextBytes::read(std::int64_t offset,
                                                       std::int64_t length) const {
  if (!compressed()) {
    ARROW_TRY(auto bytes, "cannot read it", read_at(file_, offset, length));
    if (bytes->size() == length) return bytes;
  } else {
    TRY(const auto text, open());
    std::int64_t skipped = 0;
    while (skipped < offset) {
      ARROW_TRY(const auto piece, "cannot unpack it",
                text->Read(std::min(kPieceBytes, offset - skipped)));
      if (piece->size() == 0) break;
      skipped += piece->size();
    }
    ARROW_TRY(auto bytes, "cannot unpack it", text->Read(length));
    if (skipped == offset && bytes->size() == length) return bytes;
  }
  return Error{Errc::Corrupt,
               fmt::format("its bytes {} to {} are missing", offset, offset + length),
               "the file became shorter after the dataset was opened"};
}

}  // namespace train::data
