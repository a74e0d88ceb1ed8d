// A file of arbitrary bytes in one of the other formats, which the first byte chooses.
#include "tests/fuzz/dataset_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using train::data::FileFormat;
  constexpr FileFormat kFormats[]{FileFormat::Csv,    FileFormat::Json,      FileFormat::Arrow,
                                  FileFormat::Orc,    FileFormat::Numpy,     FileFormat::Cifar,
                                  FileFormat::Images, FileFormat::WebDataset};
  if (size == 0) return 0;
  train::fuzz::check_bytes(data + 1, size - 1, kFormats[data[0] % std::size(kFormats)]);
  return 0;
}
