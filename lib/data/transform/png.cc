// This is the only file that calls libpng, which reports errors by longjmp: between setjmp() and
// the end of such a function there are no objects with destructors.
#include <fmt/format.h>
#include <png.h>

#include <array>
#include <cstring>

#include "lib/data/transform/pixels.h"

namespace train::data {
namespace {

struct Reading {
  std::string_view left = {};  // of the file
  std::array<char, 128> why = {};
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Reading() { png_destroy_read_struct(&png, &info, nullptr); }
};

void on_error(png_structp png, png_const_charp text) {
  auto* reading = static_cast<Reading*>(png_get_error_ptr(png));
  std::strncpy(reading->why.data(), text, reading->why.size() - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void take_bytes(png_structp png, png_bytep out, std::size_t count) {
  auto* reading = static_cast<Reading*>(png_get_io_ptr(png));
  if (count > reading->left.size()) png_error(png, "it ends too early");
  std::memcpy(out, reading->left.data(), count);
  reading->left.remove_prefix(count);
}

/// Read the header, and ask for 8 bits in 1 or 3 channels. False: see Reading::why.
bool read_header(Reading& reading) {
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_read_info(reading.png, reading.info);
  png_set_expand(reading.png);  // palettes, and fewer bits than 8
  png_set_scale_16(reading.png);
  png_set_strip_alpha(reading.png);
  return true;
}

bool read_pixels(Reading& reading, png_bytepp rows) {
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_read_image(reading.png, rows);
  png_read_end(reading.png, nullptr);
  return true;
}

/// Take the transformations into account, and lay out rows of interlaced files.
bool update_header(Reading& reading) {
  if (setjmp(png_jmpbuf(reading.png)) != 0) return false;
  png_set_interlace_handling(reading.png);
  png_read_update_info(reading.png, reading.info);
  return true;
}

Error damaged(const Reading& reading) {
  return Error{Errc::Corrupt, fmt::format("damaged PNG: {}", reading.why.data())};
}

Pixels with_mode(Pixels pixels, ImageMode mode) {
  const int channels = channels_of(mode);
  if (pixels.channels == channels) return pixels;
  Pixels other{.height = pixels.height, .width = pixels.width, .channels = channels};
  const std::vector<std::uint8_t>& from = pixels.bytes;
  if (channels == 3) {
    other.bytes.resize(from.size() * 3);
    for (std::size_t i = 0; i < from.size(); ++i)
      std::memset(other.bytes.data() + 3 * i, from[i], 3);
  } else {
    other.bytes.resize(from.size() / 3);
    for (std::size_t i = 0; i < other.bytes.size(); ++i)
      other.bytes[i] = luma(from[3 * i], from[3 * i + 1], from[3 * i + 2]);
  }
  return other;
}

}  // namespace

bool is_png(std::string_view file) { return file.starts_with("\x89PNG\r\n\x1a\n"); }

Result<Pixels> decode_png(std::string_view file, ImageMode mode) {
  Reading reading{.left = file};
  reading.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &reading, on_error, on_warning);
  if (reading.png != nullptr) reading.info = png_create_info_struct(reading.png);
  if (reading.info == nullptr) return Error{Errc::ResourceExhausted, "no memory for a PNG decoder"};
  png_set_read_fn(reading.png, &reading, take_bytes);
  if (!read_header(reading)) return damaged(reading);
  const auto height = png_get_image_height(reading.png, reading.info);
  const auto width = png_get_image_width(reading.png, reading.info);
  TRY_VOID(check_image_size(height, width));
  if (!update_header(reading)) return damaged(reading);
  Pixels pixels{.height = static_cast<int>(height),
                .width = static_cast<int>(width),
                .channels = png_get_channels(reading.png, reading.info)};
  if (pixels.channels != 1 && pixels.channels != 3)
    return Error{Errc::Corrupt, fmt::format("damaged PNG: it has {} channels", pixels.channels)};
  const std::size_t row_bytes = std::size_t{width} * static_cast<std::size_t>(pixels.channels);
  pixels.bytes.resize(row_bytes * height);
  std::vector<png_bytep> rows;
  for (std::size_t row = 0; row < height; ++row)
    rows.push_back(pixels.bytes.data() + row * row_bytes);
  if (!read_pixels(reading, rows.data())) return damaged(reading);
  return with_mode(std::move(pixels), mode);
}

}  // namespace train::data
