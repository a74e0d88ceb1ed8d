// The maps that a spec may name without code (datasets.*.map), and their arguments. The launcher
// checks a spec against them before any worker starts; lib/data/transform carries them out.
// preprocessors.h has a table of the same kind.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace train {

enum class MapArgumentKind {
  Column,   // a column's name
  Columns,  // min … max of them
  Scalar,   // a number, a text, true or false
  Sides,    // [height, width], each min … max
  Choice,   // one of `choices`
  Integer,  // min … max
  Number,   // min … max
  Numbers,  // 1 to kMapNumbersMax numbers, min … max
};

struct MapArgument {
  std::string_view name;
  MapArgumentKind kind = MapArgumentKind::Column;
  bool required = false;
  double min = 0, max = 0;
  std::span<const std::string_view> choices = {};
};

struct BuiltInMap {
  std::string_view name;
  std::span<const MapArgument> arguments;
};

inline constexpr int kMapNumbersMax = 64;
/// The greatest height and width of a picture that one may ask for.
inline constexpr int kImageSideMax = 8192;
inline constexpr std::int64_t kClassesMax = 1'000'000;
inline constexpr std::array<std::string_view, 2> kImageModes{"RGB", "L"};
inline constexpr std::array<std::string_view, 2> kFlipDirections{"horizontal", "vertical"};
inline constexpr std::array<std::string_view, 11> kNumberTypes{
    "bool",   "int8",   "int16",  "int32",   "int64",  "uint8",
    "uint16", "uint32", "uint64", "float32", "float64"};

namespace map_arguments {
using Kind = MapArgumentKind;
inline constexpr double kAny = 1e30;
inline constexpr MapArgument kColumn{"column"};
inline constexpr MapArgument kSize{"size", Kind::Sides, true, 1, kImageSideMax};
inline constexpr std::array kDecodeImage{
    kColumn, kSize, MapArgument{"mode", Kind::Choice, false, 0, 0, kImageModes}};
inline constexpr std::array kResize{kColumn, kSize};
inline constexpr std::array kRandomCrop{
    kColumn, kSize, MapArgument{"padding", Kind::Integer, false, 0, kImageSideMax}};
inline constexpr std::array kFlip{
    kColumn, MapArgument{"direction", Kind::Choice, false, 0, 0, kFlipDirections},
    MapArgument{"probability", Kind::Number, false, 0, 1}};
inline constexpr std::array kNormalize{kColumn,
                                       MapArgument{"mean", Kind::Numbers, true, -kAny, kAny},
                                       MapArgument{"std", Kind::Numbers, true, 1e-30, kAny}};
inline constexpr std::array kCast{MapArgument{"column", Kind::Column, true},
                                  MapArgument{"type", Kind::Choice, true, 0, 0, kNumberTypes}};
inline constexpr std::array kScale{MapArgument{"column", Kind::Column, true},
                                   MapArgument{"factor", Kind::Number, true, -kAny, kAny},
                                   MapArgument{"offset", Kind::Number, false, -kAny, kAny}};
inline constexpr std::array kOneHot{
    kColumn, MapArgument{"classes", Kind::Integer, true, 1, static_cast<double>(kClassesMax)}};
}  // namespace map_arguments

inline constexpr std::array kBuiltInMaps{BuiltInMap{"decode_image", map_arguments::kDecodeImage},
                                         BuiltInMap{"resize", map_arguments::kResize},
                                         BuiltInMap{"random_crop", map_arguments::kRandomCrop},
                                         BuiltInMap{"center_crop", map_arguments::kResize},
                                         BuiltInMap{"flip", map_arguments::kFlip},
                                         BuiltInMap{"normalize", map_arguments::kNormalize},
                                         BuiltInMap{"cast", map_arguments::kCast},
                                         BuiltInMap{"scale", map_arguments::kScale},
                                         BuiltInMap{"one_hot", map_arguments::kOneHot}};

/// Return the map of that name; null for one that a program must register.
constexpr const BuiltInMap* built_in_map(std::string_view name) {
  for (const BuiltInMap& map : kBuiltInMaps)
    if (map.name == name) return &map;
  return nullptr;
}

}  // namespace train
