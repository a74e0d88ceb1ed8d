#include "lib/data/transform/image_maps.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"
#include "lib/data/plan/permutation.h"
#include "lib/data/transform/image_decoder.h"
#include "lib/data/transform/tensor_column.h"

namespace train::data {
namespace {

using Column = std::shared_ptr<arrow::Array>;
using Type = std::shared_ptr<arrow::DataType>;

/// Return number `index` of a row's chance, in [0, bound).
std::int64_t chance(std::uint64_t seed, std::uint64_t index, std::int64_t bound) {
  return static_cast<std::int64_t>(
      static_cast<unsigned __int128>(mix(seed, index)) * static_cast<std::uint64_t>(bound) >> 64);
}

Result<std::shared_ptr<arrow::Buffer>> zeros(std::int64_t bytes) {
  ARROW_TRY(std::shared_ptr<arrow::Buffer> buffer, "no memory for the rows",
            arrow::AllocateBuffer(bytes));
  std::memset(buffer->mutable_data(), 0, static_cast<std::size_t>(bytes));
  return buffer;
}

bool is_bytes(arrow::Type::type id) {
  return id == arrow::Type::BINARY || id == arrow::Type::LARGE_BINARY ||
         id == arrow::Type::FIXED_SIZE_BINARY;
}

std::string_view file_at(const arrow::Array& files, std::int64_t row) {
  if (files.type_id() == arrow::Type::BINARY)
    return static_cast<const arrow::BinaryArray&>(files).GetView(row);
  if (files.type_id() == arrow::Type::LARGE_BINARY)
    return static_cast<const arrow::LargeBinaryArray&>(files).GetView(row);
  return static_cast<const arrow::FixedSizeBinaryArray&>(files).GetView(row);
}

class DecodeImage final : public ColumnMap {
 public:
  DecodeImage(ImageMode mode, ImageSize size) : decoder_(mode, size) {}

  Result<Type> output(const Type& in) const override {
    if (is_bytes(in->id())) return decoder_.type();
    // Hugging Face's images: {bytes, path}
    if (in->id() == arrow::Type::STRUCT) {
      const auto bytes = static_cast<const arrow::StructType&>(*in).GetFieldByName("bytes");
      if (bytes && is_bytes(bytes->type()->id())) return decoder_.type();
    }
    return Error{
        Errc::InvalidArgument,
        fmt::format("it is {}, and must be the bytes of JPEG or PNG files", in->ToString())};
  }

  Result<Column> apply(const Column& values, const std::vector<std::uint64_t>&,
                       std::vector<BadRow>& bad) const override {
    Column files = values;
    if (files->type_id() == arrow::Type::STRUCT) {
      const auto& images = static_cast<const arrow::StructArray&>(*values);
      const int index = images.struct_type()->GetFieldIndex("bytes");
      ARROW_TRY(files, "no bytes", images.GetFlattenedField(index));
    }
    TRY(auto pixels, zeros(files->length() * decoder_.image_bytes()));
    for (std::int64_t row = 0; row < files->length(); ++row) {
      std::uint8_t* out = pixels->mutable_data() + row * decoder_.image_bytes();
      auto decoded = files->IsNull(row) ? Result<Unit>(Error{Errc::InvalidArgument, "it is null"})
                                        : decoder_.decode(file_at(*files, row), out);
      if (decoded.has_error()) bad.push_back({row, std::move(decoded).error()});
    }
    return tensor_rows(arrow::uint8(), decoder_.shape(), std::move(pixels));
  }

 private:
  ImageDecoder decoder_;
};

/// A map from pictures to pictures.
class PictureMap : public ColumnMap {
 public:
  Result<Type> output(const Type& in) const override {
    TRY(const TensorType picture, tensor_type(in));
    if (picture.shape.size() != 3 || picture.value->id() == arrow::Type::BOOL) {
      return Error{Errc::InvalidArgument,
                   fmt::format("it is {}, and must be pictures, lists of [channels, height, width]",
                               in->ToString()),
                   "put decode_image before this map"};
    }
    TRY_VOID(check(picture));
    const ImageSize size = output_size(picture);
    return row_type(picture.value, {picture.shape[0], size.height, size.width});
  }

  Result<Column> apply(const Column& values, const std::vector<std::uint64_t>& seeds,
                       std::vector<BadRow>&) const override {
    TRY(const TensorType picture, tensor_type(values->type()));
    TRY(const auto flat, flat_values(values));
    const ImageSize size = output_size(picture);
    const std::vector<std::int64_t> shape{picture.shape[0], size.height, size.width};
    const std::int64_t width = picture.value->byte_width();
    const std::int64_t in_bytes = picture.row_values() * width;
    const std::int64_t out_bytes = shape[0] * shape[1] * shape[2] * width;
    TRY(auto bytes, zeros(values->length() * out_bytes));
    for (std::int64_t row = 0; row < values->length(); ++row)
      map(bytes_of(*flat) + row * in_bytes, picture, seeds[static_cast<std::size_t>(row)],
          bytes->mutable_data() + row * out_bytes);
    return tensor_rows(picture.value, shape, std::move(bytes));
  }

 protected:
  virtual Result<Unit> check(const TensorType&) const { return Unit{}; }
  virtual ImageSize output_size(const TensorType& in) const {
    return {static_cast<int>(in.shape[1]), static_cast<int>(in.shape[2])};
  }
  /// Write one picture to `out`, which holds zeros.
  virtual void map(const std::uint8_t* in, const TensorType& type, std::uint64_t seed,
                   std::uint8_t* out) const = 0;
};

class Resize final : public PictureMap {
 public:
  explicit Resize(ImageSize size) : size_(size) {}

 protected:
  Result<Unit> check(const TensorType& type) const override {
    if (type.value->id() == arrow::Type::UINT8) return Unit{};
    return Error{Errc::InvalidArgument,
                 fmt::format("its values are {}, and must be uint8", type.value->ToString()),
                 "put resize before the maps that make other numbers"};
  }
  ImageSize output_size(const TensorType&) const override { return size_; }
  void map(const std::uint8_t* in, const TensorType& type, std::uint64_t,
           std::uint8_t* out) const override {
    const std::int64_t plane = type.shape[1] * type.shape[2];
    Pixels pixels{.height = static_cast<int>(type.shape[1]),
                  .width = static_cast<int>(type.shape[2]),
                  .channels = 1};
    for (std::int64_t channel = 0; channel < type.shape[0]; ++channel) {
      pixels.bytes.assign(in + channel * plane, in + (channel + 1) * plane);
      resize_to_planes(pixels, size_, out + channel * size_.height * size_.width);
    }
  }

 private:
  ImageSize size_;
};

class Crop final : public PictureMap {
 public:
  Crop(ImageSize size, int padding, bool random)
      : size_(size), padding_(padding), random_(random) {}

 protected:
  Result<Unit> check(const TensorType& type) const override {
    const std::int64_t height = type.shape[1] + 2 * padding_, width = type.shape[2] + 2 * padding_;
    if (size_.height <= height && size_.width <= width) return Unit{};
    return Error{Errc::InvalidArgument,
                 fmt::format("its pictures have {} x {} pixels, with the padding, fewer than [{}, "
                             "{}]",
                             height, width, size_.height, size_.width),
                 "crop to a smaller size"};
  }
  ImageSize output_size(const TensorType&) const override { return size_; }
  void map(const std::uint8_t* in, const TensorType& type, std::uint64_t seed,
           std::uint8_t* out) const override {
    const std::int64_t height = type.shape[1], width = type.shape[2];
    const std::int64_t bytes = type.value->byte_width();
    const std::int64_t rows_left = height + 2 * padding_ - size_.height;
    const std::int64_t columns_left = width + 2 * padding_ - size_.width;
    // where the crop begins in the picture; negative: within the padding
    const std::int64_t top = (random_ ? chance(seed, 0, rows_left + 1) : rows_left / 2) - padding_;
    const std::int64_t left =
        (random_ ? chance(seed, 1, columns_left + 1) : columns_left / 2) - padding_;
    const std::int64_t first = std::max<std::int64_t>(0, -left);  // column that is no padding
    const std::int64_t count = std::min<std::int64_t>(size_.width, width - left) - first;
    for (std::int64_t channel = 0; channel < type.shape[0]; ++channel) {
      for (std::int64_t y = 0; y < size_.height; ++y) {
        if (top + y < 0 || top + y >= height || count <= 0) continue;
        const std::int64_t from = (channel * height + top + y) * width + left + first;
        const std::int64_t to = (channel * size_.height + y) * size_.width + first;
        std::memcpy(out + to * bytes, in + from * bytes, static_cast<std::size_t>(count * bytes));
      }
    }
  }

 private:
  ImageSize size_;
  std::int64_t padding_;
  bool random_;
};

class Flip final : public PictureMap {
 public:
  Flip(bool vertical, double probability) : vertical_(vertical), probability_(probability) {}

 protected:
  void map(const std::uint8_t* in, const TensorType& type, std::uint64_t seed,
           std::uint8_t* out) const override {
    constexpr std::int64_t kParts = 1 << 30;
    const auto bytes = static_cast<std::size_t>(type.value->byte_width());
    const auto lines = static_cast<std::size_t>(type.shape[0] * type.shape[1]);
    const auto height = static_cast<std::size_t>(type.shape[1]);
    const auto width = static_cast<std::size_t>(type.shape[2]);
    const bool flips =
        static_cast<double>(chance(seed, 0, kParts)) < probability_ * static_cast<double>(kParts);
    if (!flips) {
      std::memcpy(out, in, lines * width * bytes);
      return;
    }
    for (std::size_t line = 0; line < lines; ++line) {
      const std::size_t plane = line / height * height;
      const std::size_t from = vertical_ ? plane + (height - 1 - (line - plane)) : line;
      const std::uint8_t* source = in + from * width * bytes;
      std::uint8_t* target = out + line * width * bytes;
      if (vertical_) {
        std::memcpy(target, source, width * bytes);
        continue;
      }
      for (std::size_t x = 0; x < width; ++x)
        std::memcpy(target + x * bytes, source + (width - 1 - x) * bytes, bytes);
    }
  }

 private:
  bool vertical_;
  double probability_;
};

}  // namespace

std::unique_ptr<ColumnMap> make_decode_image(ImageMode mode, ImageSize size) {
  return std::make_unique<DecodeImage>(mode, size);
}
std::unique_ptr<ColumnMap> make_resize(ImageSize size) { return std::make_unique<Resize>(size); }
std::unique_ptr<ColumnMap> make_crop(ImageSize size, int padding, bool random) {
  return std::make_unique<Crop>(size, padding, random);
}
std::unique_ptr<ColumnMap> make_flip(bool vertical, double probability) {
  return std::make_unique<Flip>(vertical, probability);
}

}  // namespace train::data
