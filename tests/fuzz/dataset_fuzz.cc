// A Parquet file of arbitrary bytes.
#include "tests/fuzz/dataset_check.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  train::fuzz::check_bytes(data, size, train::data::FileFormat::Parquet);
  return 0;
}
