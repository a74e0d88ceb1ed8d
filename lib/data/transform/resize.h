// Resizes pictures as Pillow's `Image.resize(…, BILINEAR)` does, to the bit: a triangle filter that
// covers all of what a pixel of a smaller picture stands for. Pure.
#pragma once

#include <cstdint>

#include "lib/data/transform/pixels.h"

namespace train::data {

struct ImageSize {
  int height = 0, width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// Write [channels, height, width] of the resized picture to `planes`.
void resize_to_planes(const Pixels& pixels, ImageSize size, std::uint8_t* planes);

}  // namespace train::data
