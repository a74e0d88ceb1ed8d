#include "lib/data/transform/image_decoder.h"

#include <arrow/type.h>
#include <fmt/format.h>

#include "lib/data/formats/fixed_records.h"

namespace train::data {
namespace {

Error not_an_image(std::string_view file) {
  if (file.empty()) return Error{Errc::Corrupt, "neither a JPEG nor a PNG: it is empty"};
  std::string start;
  for (const char byte : file.substr(0, 4))
    start += fmt::format("{}{:02x}", start.empty() ? "" : " ", static_cast<unsigned char>(byte));
  return Error{Errc::Corrupt, fmt::format("neither a JPEG nor a PNG: it begins {}", start)};
}

}  // namespace

Result<Unit> check_image_size(std::int64_t height, std::int64_t width) {
  if (height > 0 && width > 0 && width <= kImagePixelsMax / height) return Unit{};
  return Error{
      Errc::InvalidArgument,
      fmt::format("it has {} x {} pixels, and may have {}", width, height, kImagePixelsMax),
      "make it smaller before the training"};
}

std::shared_ptr<arrow::DataType> ImageDecoder::type() const {
  return row_type(arrow::uint8(), shape());
}

Result<Unit> ImageDecoder::decode(std::string_view file, std::uint8_t* out) const {
  if (!is_jpeg(file) && !is_png(file)) return not_an_image(file);
  TRY(const Pixels pixels, is_jpeg(file) ? decode_jpeg(file, mode_) : decode_png(file, mode_));
  resize_to_planes(pixels, size_, out);
  return Unit{};
}

}  // namespace train::data
