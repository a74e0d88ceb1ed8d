// How a size is shown to people.
#pragma once

#include <cstdint>
#include <string>

namespace train {

/// Return "512 B", "1.2 MiB".
std::string size_text(std::uint64_t bytes);

}  // namespace train
