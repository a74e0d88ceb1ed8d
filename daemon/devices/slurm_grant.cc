#include "daemon/devices/slurm_grant.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace train {
namespace {

constexpr std::uint64_t kCpusMax = 65'536, kMebibytesMax = 1u << 30;

std::optional<std::uint64_t> amount_in(const char* variable, std::uint64_t max) {
  const std::string_view text = variable == nullptr ? "" : variable;
  std::uint64_t amount = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), amount);
  const bool whole = error == std::errc{} && end == text.data() + text.size();
  return whole && amount > 0 && amount <= max ? std::optional(amount) : std::nullopt;
}

}  // namespace

void limit_to_slurm_grant(const SlurmVariables& variables, Resources& found) {
  if (variables.node == nullptr) return;
  const auto cpus = amount_in(variables.cpus_on_node, kCpusMax);
  if (cpus) found.cpu = std::min(found.cpu, static_cast<double>(*cpus));
  auto mebibytes = amount_in(variables.mem_per_node, kMebibytesMax);
  const auto per_cpu = amount_in(variables.mem_per_cpu, kMebibytesMax);
  if (!mebibytes && per_cpu && cpus) mebibytes = *per_cpu * *cpus;
  if (mebibytes) found.memory_bytes = std::min(found.memory_bytes, *mebibytes << 20);
}

}  // namespace train
