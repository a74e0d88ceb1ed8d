// The pixels of one decoded picture, and how JPEG and PNG files become them. image_decoder.h is
// what others call. Anybody may have written the files.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train::data {

/// The most pixels of a picture, so that a small file cannot fill the memory: ImageNet's largest
/// has 61 million.
inline constexpr std::int64_t kImagePixelsMax = std::int64_t{1} << 26;

enum class ImageMode { Rgb, L };  // L: luma, one channel
constexpr int channels_of(ImageMode mode) { return mode == ImageMode::Rgb ? 3 : 1; }

struct Pixels {
  int height = 0, width = 0, channels = 0;
  std::vector<std::uint8_t> bytes = {};  // [height, width, channels]
};

bool is_jpeg(std::string_view file);
bool is_png(std::string_view file);
/// Decode a whole file. An error for one that is damaged or cut, or has more than kImagePixelsMax.
Result<Pixels> decode_jpeg(std::string_view file, ImageMode mode);
/// Do the same. Drops the alpha channel; 16 bits become 8.
Result<Pixels> decode_png(std::string_view file, ImageMode mode);

/// Check the size that a file's header tells, before any memory is taken for it.
Result<Unit> check_image_size(std::int64_t height, std::int64_t width);

/// Return the luma of a colour, by ITU-R 601-2 as Pillow computes it.
constexpr std::uint8_t luma(unsigned red, unsigned green, unsigned blue) {
  return static_cast<std::uint8_t>((red * 19595U + green * 38470U + blue * 7471U + 0x8000U) >> 16);
}

}  // namespace train::data
