// How workers are bound to the CPUs of their node. The names are torchrun's (--numa-binding).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace train {

enum class CpuBinding { None, Node, Socket, Exclusive, CoreComplex };
// In the order of CpuBinding.
inline constexpr std::array<std::string_view, 5> kCpuBindings{"none", "node", "socket", "exclusive",
                                                              "core-complex"};
constexpr std::string_view to_text(CpuBinding binding) {
  return kCpuBindings[static_cast<std::size_t>(binding)];
}
constexpr std::optional<CpuBinding> parse_cpu_binding(std::string_view text) {
  for (std::size_t i = 0; i < kCpuBindings.size(); ++i)
    if (kCpuBindings[i] == text) return static_cast<CpuBinding>(i);
  return std::nullopt;
}

}  // namespace train
