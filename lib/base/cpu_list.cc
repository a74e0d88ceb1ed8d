#include "lib/base/cpu_list.h"

#include <fmt/format.h>

#include <charconv>

namespace train {
namespace {

bool take_number(std::string_view& text, int& number) {
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (failed != std::errc{} || number < 0 || number >= kCpusMax) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

}  // namespace

std::optional<CpuSet> parse_cpu_list(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  CpuSet cpus;
  int listed = 0;  // one that lists CPUs again and again would take for ever
  while (!text.empty()) {
    int first = 0;
    if (!take_number(text, first)) return std::nullopt;
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      if (!take_number(text, last) || last < first) return std::nullopt;
    }
    listed += last - first + 1;
    if (listed > kCpusMax) return std::nullopt;
    for (int cpu = first; cpu <= last; ++cpu) cpus.insert(cpus.end(), cpu);
    if (text.empty()) break;
    if (!text.starts_with(',') || text.size() == 1) return std::nullopt;
    text.remove_prefix(1);
  }
  return cpus;
}

std::string cpu_list_text(const CpuSet& cpus) {
  std::string text;
  for (auto at = cpus.begin(); at != cpus.end();) {
    const int first = *at;
    int last = first;
    while (++at != cpus.end() && *at == last + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", first);
    if (last > first) text += fmt::format("-{}", last);
  }
  return text;
}

}  // namespace train
