// CRC-32C (Castagnoli polynomial, RFC 3720 appendix B.4), as TensorBoard's files use it.
#pragma once

#include <cstdint>
#include <string_view>

namespace train {

std::uint32_t crc32c(std::string_view data);

}  // namespace train
