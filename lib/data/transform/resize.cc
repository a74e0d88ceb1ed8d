#include "lib/data/transform/resize.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace train::data {
namespace {

// Weights are whole numbers, of which 2^22 are one (Pillow, src/libImaging/Resample.c).
constexpr int kWeightBits = 22;
constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);

/// What one pixel of the result is made of: pixels [first, first + weights.size()).
struct Window {
  int first = 0;
  std::vector<std::int32_t> weights;
};

int rounded(double value) { return static_cast<int>(std::floor(value + 0.5)); }

std::vector<Window> windows(int from, int to) {
  const double scale = static_cast<double>(from) / to;
  const double reach = std::max(scale, 1.0);
  std::vector<Window> all(static_cast<std::size_t>(to));
  std::vector<double> weights;
  for (int at = 0; at < to; ++at) {
    const double centre = (at + 0.5) * scale;
    const int first = std::max(rounded(centre - reach), 0);
    const int end = std::min(rounded(centre + reach), from);
    weights.clear();
    double sum = 0;
    for (int pixel = first; pixel < end; ++pixel) {
      const double distance = std::abs((pixel - centre + 0.5) * (1 / reach));
      weights.push_back(distance < 1 ? 1 - distance : 0);
      sum += weights.back();
    }
    Window& window = all[static_cast<std::size_t>(at)];
    window.first = first;
    for (const double weight : weights)
      window.weights.push_back(rounded((sum != 0 ? weight / sum : weight) * (1 << kWeightBits)));
  }
  return all;
}

std::uint8_t to_byte(std::int32_t weighted) {
  return static_cast<std::uint8_t>(std::clamp(weighted >> kWeightBits, 0, 255));
}

template <int kChannels>
void resize_row(const std::uint8_t* from, const std::vector<Window>& columns, std::uint8_t* to) {
  for (const Window& window : columns) {
    std::int32_t sums[kChannels];
    for (std::int32_t& sum : sums) sum = kHalf;
    const std::uint8_t* pixel = from + static_cast<std::ptrdiff_t>(window.first) * kChannels;
    for (const std::int32_t weight : window.weights) {
      for (std::int32_t& sum : sums) sum += *pixel++ * weight;
    }
    for (const std::int32_t sum : sums) *to++ = to_byte(sum);
  }
}

void to_planes(const std::uint8_t* __restrict row, int width, int channels,
               std::uint8_t* __restrict plane, std::size_t plane_bytes) {
  if (channels == 1) {
    std::copy(row, row + width, plane);
    return;
  }
  std::uint8_t* __restrict green = plane + plane_bytes;
  std::uint8_t* __restrict blue = green + plane_bytes;
  const auto pixels = static_cast<std::size_t>(width);
  for (std::size_t x = 0; x < pixels; ++x) {  // all at once: half the time of one after the other
    plane[x] = row[3 * x];
    green[x] = row[3 * x + 1];
    blue[x] = row[3 * x + 2];
  }
}

}  // namespace

void resize_to_planes(const Pixels& pixels, ImageSize size, std::uint8_t* planes) {
  const auto channels = static_cast<std::size_t>(pixels.channels);
  const std::size_t from_bytes = static_cast<std::size_t>(pixels.width) * channels;
  const std::size_t row_bytes = static_cast<std::size_t>(size.width) * channels;
  const auto plane_bytes =
      static_cast<std::size_t>(size.height) * static_cast<std::size_t>(size.width);
  const auto out_row = [&](int y) { return planes + static_cast<std::ptrdiff_t>(y) * size.width; };

  std::vector<std::uint8_t> narrowed;  // all rows, already of the new width
  const std::uint8_t* rows = pixels.bytes.data();
  if (size.width != pixels.width) {
    const auto columns = windows(pixels.width, size.width);
    narrowed.resize(row_bytes * static_cast<std::size_t>(pixels.height));
    for (int y = 0; y < pixels.height; ++y) {
      const std::uint8_t* from = rows + static_cast<std::size_t>(y) * from_bytes;
      std::uint8_t* to = narrowed.data() + static_cast<std::size_t>(y) * row_bytes;
      channels == 3 ? resize_row<3>(from, columns, to) : resize_row<1>(from, columns, to);
    }
    rows = narrowed.data();
  }
  if (size.height == pixels.height) {
    for (int y = 0; y < size.height; ++y)
      to_planes(rows + static_cast<std::size_t>(y) * row_bytes, size.width, pixels.channels,
                out_row(y), plane_bytes);
    return;
  }
  std::vector<std::int32_t> sums(row_bytes);
  std::vector<std::uint8_t> row(row_bytes);
  const auto lines = windows(pixels.height, size.height);
  for (int y = 0; y < size.height; ++y) {
    const Window& window = lines[static_cast<std::size_t>(y)];
    std::fill(sums.begin(), sums.end(), kHalf);
    const std::uint8_t* from = rows + static_cast<std::size_t>(window.first) * row_bytes;
    for (const std::int32_t weight : window.weights) {
      for (std::size_t i = 0; i < row_bytes; ++i) sums[i] += from[i] * weight;
      from += row_bytes;
    }
    std::transform(sums.begin(), sums.end(), row.begin(), to_byte);
    to_planes(row.data(), size.width, pixels.channels, out_row(y), plane_bytes);
  }
}

}  // namespace train::data
