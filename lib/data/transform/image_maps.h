// The maps of pictures: decode_image, resize, random_crop, center_crop, flip. A picture is
// [channels, height, width].
#pragma once

#include "lib/data/transform/row_map.h"

namespace train::data {

std::unique_ptr<ColumnMap> make_decode_image(ImageMode mode, ImageSize size);
std::unique_ptr<ColumnMap> make_resize(ImageSize size);
std::unique_ptr<ColumnMap> make_crop(ImageSize size, int padding, bool random);
std::unique_ptr<ColumnMap> make_flip(bool vertical, double probability);

}  // namespace train::data
