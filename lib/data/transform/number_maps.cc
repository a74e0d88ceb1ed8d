// The maps of numbers: normalize, cast, scale, one_hot; and make_column_map().
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/compute/cast.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/transform/image_maps.h"
#include "lib/data/transform/tensor_column.h"

namespace train::data {
namespace {

using Column = std::shared_ptr<arrow::Array>;
using Type = std::shared_ptr<arrow::DataType>;

Result<Column> cast_values(const Column& values, const Type& type) {
  if (values->type()->Equals(*type)) return values;
  ARROW_TRY(auto cast, fmt::format("a value does not fit {}", type->ToString()),
            arrow::compute::Cast(*values, type, arrow::compute::CastOptions::Safe()));
  return cast;
}

/// Fill `count` floats by a function of their place, as rows of `shape`.
template <class Fill>
Result<Column> floats(std::int64_t count, const std::vector<std::int64_t>& shape, Fill&& fill) {
  ARROW_TRY(std::shared_ptr<arrow::Buffer> bytes, "no memory for the rows",
            arrow::AllocateBuffer(count * static_cast<std::int64_t>(sizeof(float))));
  fill(reinterpret_cast<float*>(bytes->mutable_data()));
  return tensor_rows(arrow::float32(), shape, std::move(bytes));
}

class Normalize final : public ColumnMap {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std)
      : mean_(std::move(mean)), std_(std::move(std)) {}

  Result<Type> output(const Type& in) const override {
    TRY(const TensorType type, tensor_type(in));
    const auto first = type.shape.empty() ? 1 : type.shape.front();
    for (const auto* list : {&mean_, &std_}) {
      const auto count = static_cast<std::int64_t>(list->size());
      if (count == 1 || count == first) continue;
      return Error{Errc::InvalidArgument,
                   fmt::format("`{}` has {} numbers, and the column's rows have {}",
                               list == &mean_ ? "mean" : "std", count, first),
                   "give one for each channel, or one for all"};
    }
    return row_type(arrow::float32(), type.shape);
  }

  Result<Column> apply(const Column& rows, const std::vector<std::uint64_t>&,
                       std::vector<BadRow>&) const override {
    TRY(const TensorType type, tensor_type(rows->type()));
    TRY(auto flat, flat_values(rows));
    const std::int64_t channels = type.shape.empty() ? 1 : type.shape.front();
    const std::int64_t plane = type.row_values() / channels;
    const bool bytes = type.value->id() == arrow::Type::UINT8;
    if (!bytes) {
      TRY(flat, cast_values(flat, arrow::float32()));
    }
    return floats(flat->length(), type.shape, [&](float* out) {
      const std::uint8_t* in = bytes_of(*flat);
      for (std::int64_t channel = 0; channel < channels; ++channel) {
        const Line line = line_of(channel, bytes ? 1.0 / 255 : 1);
        std::array<float, 256> of_byte{};
        for (std::size_t value = 0; bytes && value < of_byte.size(); ++value)
          of_byte[value] = line(static_cast<float>(value));
        for (std::int64_t row = 0; row < rows->length(); ++row) {
          const std::int64_t begin = (row * channels + channel) * plane;
          if (bytes) {
            for (std::int64_t i = begin; i < begin + plane; ++i) out[i] = of_byte[in[i]];
          } else {
            const auto* numbers = reinterpret_cast<const float*>(in);
            for (std::int64_t i = begin; i < begin + plane; ++i) out[i] = line(numbers[i]);
          }
        }
      }
    });
  }

 private:
  struct Line {
    double factor, offset;
    float operator()(float value) const { return static_cast<float>(value * factor + offset); }
  };
  Line line_of(std::int64_t channel, double unit) const {
    const auto at = [&](const std::vector<double>& list) {
      return list.size() == 1 ? list.front() : list[static_cast<std::size_t>(channel)];
    };
    return {unit / at(std_), -at(mean_) / at(std_)};
  }

  std::vector<double> mean_, std_;
};

class Cast final : public ColumnMap {
 public:
  explicit Cast(Type type) : type_(std::move(type)) {}
  Result<Type> output(const Type& in) const override {
    TRY(const TensorType type, tensor_type(in));
    return row_type(type_, type.shape);
  }
  Result<Column> apply(const Column& rows, const std::vector<std::uint64_t>&,
                       std::vector<BadRow>&) const override {
    TRY(const TensorType type, tensor_type(rows->type()));
    TRY(const auto flat, flat_values(rows));
    TRY(auto cast, cast_values(flat, type_));
    return as_rows(std::move(cast), type.shape);
  }

 private:
  Type type_;
};

class Scale final : public ColumnMap {
 public:
  Scale(double factor, double offset) : factor_(factor), offset_(offset) {}
  Result<Type> output(const Type& in) const override {
    TRY(const TensorType type, tensor_type(in));
    return row_type(arrow::float32(), type.shape);
  }
  Result<Column> apply(const Column& rows, const std::vector<std::uint64_t>&,
                       std::vector<BadRow>&) const override {
    TRY(const TensorType type, tensor_type(rows->type()));
    TRY(auto flat, flat_values(rows));
    TRY(flat, cast_values(flat, arrow::float64()));
    return floats(flat->length(), type.shape, [&](float* out) {
      const auto* in = reinterpret_cast<const double*>(bytes_of(*flat));
      for (std::int64_t i = 0; i < flat->length(); ++i)
        out[i] = static_cast<float>(in[i] * factor_ + offset_);
    });
  }

 private:
  double factor_, offset_;
};

class OneHot final : public ColumnMap {
 public:
  explicit OneHot(std::int64_t classes) : classes_(classes) {}
  Result<Type> output(const Type& in) const override {
    if (arrow::is_integer(in->id())) return row_type(arrow::float32(), {classes_});
    return Error{Errc::InvalidArgument,
                 fmt::format("it is {}, and must be whole numbers", in->ToString())};
  }
  Result<Column> apply(const Column& rows, const std::vector<std::uint64_t>&,
                       std::vector<BadRow>&) const override {
    TRY(auto flat, flat_values(rows));
    TRY(flat, cast_values(flat, arrow::int64()));
    const auto* labels = reinterpret_cast<const std::int64_t*>(bytes_of(*flat));
    for (std::int64_t row = 0; row < flat->length(); ++row) {
      if (labels[row] >= 0 && labels[row] < classes_) continue;
      return Error{Errc::InvalidArgument,
                   fmt::format("it is {} in the batch's row {}, and there are {} classes from 0 on",
                               labels[row], row, classes_)};
    }
    const std::int64_t count = flat->length() * classes_;
    return floats(count, {classes_}, [&](float* out) {
      std::memset(out, 0, static_cast<std::size_t>(count) * sizeof(float));
      for (std::int64_t row = 0; row < flat->length(); ++row) out[row * classes_ + labels[row]] = 1;
    });
  }

 private:
  std::int64_t classes_;
};

}  // namespace

Result<std::unique_ptr<ColumnMap>> make_column_map(const BuiltInMapSpec& spec) {
  using Made = std::unique_ptr<ColumnMap>;
  if (spec.name == "decode_image") return make_decode_image(spec.mode, spec.size);
  if (spec.name == "resize") return make_resize(spec.size);
  if (spec.name == "random_crop") return make_crop(spec.size, spec.padding, true);
  if (spec.name == "center_crop") return make_crop(spec.size, 0, false);
  if (spec.name == "flip") return make_flip(spec.vertical, spec.probability);
  if (spec.name == "normalize") return Made(std::make_unique<Normalize>(spec.mean, spec.std));
  if (spec.name == "scale") return Made(std::make_unique<Scale>(spec.factor, spec.offset));
  if (spec.name == "one_hot") return Made(std::make_unique<OneHot>(spec.classes));
  if (spec.name == "cast") {
    auto type = column_type(spec.type);
    if (type) return Made(std::make_unique<Cast>(std::move(type)));
    return Error{Errc::InvalidArgument, fmt::format("there is no type '{}'", spec.type)};
  }
  return Error{Errc::NotFound, fmt::format("there is no built-in map '{}'", spec.name)};
}

}  // namespace train::data
