// Sets of CPUs as the kernel lists them: "0-3,8". Pure.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace train {

inline constexpr int kCpusMax = 8192;  // Linux's greatest CONFIG_NR_CPUS

using CpuSet = std::set<int>;

/// Return the CPUs of a list, or nothing if it is none, or lists more than kCpusMax.
std::optional<CpuSet> parse_cpu_list(std::string_view text);
std::string cpu_list_text(const CpuSet& cpus);

}  // namespace train
