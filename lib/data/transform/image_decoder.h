// Decodes JPEG and PNG files to one size: what `format: images` and the map decode_image do.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/transform/pixels.h"
#include "lib/data/transform/resize.h"

namespace train::data {

class ImageDecoder {
 public:
  /// `size`: what each picture is resized to.
  ImageDecoder(ImageMode mode, ImageSize size) : mode_(mode), size_(size) {}

  /// Return the bytes of a decoded picture: uint8 [channels, height, width].
  std::int64_t image_bytes() const {
    return std::int64_t{channels_of(mode_)} * size_.height * size_.width;
  }
  std::vector<std::int64_t> shape() const {
    return {channels_of(mode_), size_.height, size_.width};
  }
  /// Return the type of a column of decoded pictures: nested lists of fixed sizes, as format cifar
  /// has them.
  std::shared_ptr<arrow::DataType> type() const;
  /// Decode a whole file to `out`, which has room for image_bytes(). An error says what is wrong
  /// with the file's bytes, and does not name the file.
  Result<Unit> decode(std::string_view file, std::uint8_t* out) const;

 private:
  ImageMode mode_;
  ImageSize size_;
};

}  // namespace train::data
