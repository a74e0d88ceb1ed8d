// This is the only file that calls libjpeg-turbo.
#include <fmt/format.h>
#include <turbojpeg.h>

#include <array>
#include <memory>

#include "lib/data/transform/pixels.h"

namespace train::data {
namespace {

// A progressive file of few bytes may ask for thousands of passes over its pixels.
constexpr int kFlags = TJFLAG_LIMITSCANS;

// What libjpeg-turbo says of files whose pixels are whole, as cameras make them.
constexpr std::array<std::string_view, 4> kHarmless{
    "extraneous bytes before marker", "JFIF revision", "Adobe color transform", "ICC profile"};

using Handle = std::unique_ptr<void, int (*)(tjhandle)>;

Error damaged(tjhandle handle) {
  return Error{Errc::Corrupt, fmt::format("damaged JPEG: {}", tjGetErrorStr2(handle))};
}

bool is_harmless(tjhandle handle) {
  if (tjGetErrorCode(handle) != TJERR_WARNING) return false;
  const std::string_view text = tjGetErrorStr2(handle);
  for (const std::string_view known : kHarmless)
    if (text.find(known) != std::string_view::npos) return true;
  return false;
}

/// Decode all pixels. Stops at the first warning, which tells of damage unless it is harmless; then
/// the last one must be, too.
Result<Unit> decode_all(tjhandle handle, std::string_view file, Pixels& pixels, int format) {
  const auto decode = [&](int flags) {
    return tjDecompress2(handle, reinterpret_cast<const unsigned char*>(file.data()), file.size(),
                         pixels.bytes.data(), pixels.width, 0, pixels.height, format, flags);
  };
  if (decode(kFlags | TJFLAG_STOPONWARNING) == 0) return Unit{};
  if (!is_harmless(handle)) return damaged(handle);
  if (decode(kFlags) == 0 || is_harmless(handle)) return Unit{};
  return damaged(handle);
}

/// Turn CMYK into the mode's colours. Files hold the inverted values, as Adobe's programs write
/// them.
Pixels from_cmyk(const Pixels& cmyk, ImageMode mode) {
  Pixels pixels{.height = cmyk.height, .width = cmyk.width, .channels = channels_of(mode)};
  pixels.bytes.reserve(cmyk.bytes.size() / 4 * static_cast<std::size_t>(pixels.channels));
  for (std::size_t i = 0; i + 3 < cmyk.bytes.size(); i += 4) {
    const auto mix = [&](std::size_t channel) {
      return (cmyk.bytes[i + channel] * unsigned{cmyk.bytes[i + 3]} + 127) / 255;
    };
    if (mode == ImageMode::L) {
      pixels.bytes.push_back(luma(mix(0), mix(1), mix(2)));
    } else {
      for (std::size_t channel = 0; channel < 3; ++channel)
        pixels.bytes.push_back(static_cast<std::uint8_t>(mix(channel)));
    }
  }
  return pixels;
}

}  // namespace

bool is_jpeg(std::string_view file) { return file.starts_with("\xff\xd8\xff"); }

Result<Pixels> decode_jpeg(std::string_view file, ImageMode mode) {
  const Handle handle(tjInitDecompress(), tjDestroy);
  if (!handle) return Error{Errc::ResourceExhausted, "no memory for a JPEG decoder"};
  int width = 0, height = 0, sampling = 0, colours = 0;
  const int failed =
      tjDecompressHeader3(handle.get(), reinterpret_cast<const unsigned char*>(file.data()),
                          file.size(), &width, &height, &sampling, &colours);
  // It also fails if it has no name for the sampling, which the decoder does not need.
  if (failed != 0 && (width <= 0 || height <= 0)) return damaged(handle.get());
  TRY_VOID(check_image_size(height, width));
  const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  Pixels pixels{.height = height, .width = width, .channels = cmyk ? 4 : channels_of(mode)};
  pixels.bytes.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                      static_cast<std::size_t>(pixels.channels));
  const int format = cmyk ? TJPF_CMYK : mode == ImageMode::L ? TJPF_GRAY : TJPF_RGB;
  TRY_VOID(decode_all(handle.get(), file, pixels, format));
  if (cmyk) return from_cmyk(pixels, mode);
  return pixels;
}

}  // namespace train::data
