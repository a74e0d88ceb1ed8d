// A file of arbitrary bytes in one of the other formats, which the first byte chooses; a picture is
// decoded.
#include "lib/data/transform/image_decoder.h"
#include "tests/fuzz/dataset_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using train::data::FileFormat;
  constexpr FileFormat kFormats[]{FileFormat::Csv,    FileFormat::Json,      FileFormat::Arrow,
                                  FileFormat::Orc,    FileFormat::Numpy,     FileFormat::Cifar,
                                  FileFormat::Images, FileFormat::WebDataset};
  if (size == 0) return 0;
  if (kFormats[data[0] % std::size(kFormats)] == FileFormat::Images) {
    const train::data::ImageDecoder decoder(train::data::ImageMode::Rgb, {5, 7});
    std::uint8_t pixels[3 * 5 * 7];
    const auto* file = reinterpret_cast<const char*>(data + 1);
    static_cast<void>(decoder.decode({file, size - 1}, pixels));
    return 0;
  }
  train::fuzz::check_bytes(data + 1, size - 1, kFormats[data[0] % std::size(kFormats)]);
  return 0;
}
