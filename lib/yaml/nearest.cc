#include "lib/yaml/nearest.h"

#include <algorithm>
#include <vector>

namespace train::yaml {
namespace {
constexpr std::size_t kWordBytesMax = 128;  // limits the work; nobody mistypes a longer word
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
}  // namespace

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> cost(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) cost[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, cost[i - 1][j - 1] + replace});
      const bool swapped = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                           lower(a[i - 2]) == lower(b[j - 1]);
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (word.empty() || word.size() > kWordBytesMax) return {};
  const int close = std::max(1, static_cast<int>(word.size()) / 3);
  std::string_view best;
  int best_distance = close + 1;
  for (std::string_view candidate : candidates) {
    // Treat a word cut short ("workers" for "num_workers") like a typing mistake.
    const bool part = word.size() >= 4 && candidate.find(word) != std::string_view::npos;
    const int distance =
        part ? std::min(close, edit_distance(word, candidate)) : edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace train::yaml
