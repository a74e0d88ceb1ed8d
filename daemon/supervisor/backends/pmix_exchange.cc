#include "daemon/supervisor/backends/pmix_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace train {
namespace {

/// A node's size comes before its data, in so many decimal digits.
constexpr std::size_t kSizeDigits = 8;
constexpr std::size_t kShareBytesMin = 16, kShareBytesMax = 60u << 10;
/// What all ranks bring to a collective has to fit into one frame.
constexpr std::size_t kCollectiveBytesMax = 5u << 19;

/// Return the size that is in front of a node's data.
Result<std::size_t> size_of(const std::string& node) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(node.data(), node.data() + kSizeDigits, size);
  if (error != std::errc() || end != node.data() + kSizeDigits)
    return Error{Errc::Protocol, "a node's data has no size"};
  return size;
}

}  // namespace

PmixExchange::PmixExchange(std::vector<std::int32_t> node_sizes, std::int32_t node_rank,
                           const std::string& data)
    : node_sizes_(std::move(node_sizes)),
      node_rank_(node_rank),
      own_(fmt::format("{:0{}}{}", data.size(), kSizeDigits, data)),
      nodes_(node_sizes_.size()),
      sizes_(node_sizes_.size()) {}

std::size_t PmixExchange::share_bytes() const {
  const auto ranks =
      static_cast<std::size_t>(std::accumulate(node_sizes_.begin(), node_sizes_.end(), 0));
  return std::clamp(kCollectiveBytesMax / std::max<std::size_t>(ranks, 1), kShareBytesMin,
                    kShareBytesMax);
}

std::string PmixExchange::part(std::int32_t local) const {
  const auto ranks = static_cast<std::size_t>(node_sizes_[static_cast<std::size_t>(node_rank_)]);
  const std::size_t at = (taken_ * ranks + static_cast<std::size_t>(local)) * share_bytes();
  return at < own_.size() ? own_.substr(at, share_bytes()) : std::string();
}

Result<bool> PmixExchange::take(const std::vector<std::string>& parts) {
  std::size_t rank = 0, expected = 0, all = 0, unfinished = 0;
  ++taken_;
  for (std::size_t node = 0; node < nodes_.size(); ++node) {
    const std::size_t before = nodes_[node].size();
    for (std::int32_t i = 0; i < node_sizes_[node] && rank < parts.size(); ++i)
      nodes_[node] += parts[rank++];
    expected += static_cast<std::size_t>(node_sizes_[node]);
    if (node_sizes_[node] == 0) continue;
    if (nodes_[node].size() < kSizeDigits)
      return Error{Errc::Protocol, fmt::format("node {} brings no data to a fence", node)};
    TRY(sizes_[node], size_of(nodes_[node]));
    all += sizes_[node];
    if (nodes_[node].size() >= kSizeDigits + sizes_[node]) continue;
    ++unfinished;
    if (nodes_[node].size() == before)
      return Error{Errc::Protocol, fmt::format("node {} brings less data than it says", node)};
  }
  if (rank != expected || parts.size() != expected)
    return Error{Errc::Protocol,
                 fmt::format("a fence has {} parts in place of {}", parts.size(), expected)};
  if (all > kBytesMax)
    return Error{Errc::ResourceExhausted,
                 fmt::format("the processes exchange {} bytes in a fence of PMIx; at most {} are "
                             "allowed",
                             all, kBytesMax)};
  return unfinished == 0;
}

std::string PmixExchange::data() const {
  std::string all;
  for (std::size_t node = 0; node < nodes_.size(); ++node)
    if (nodes_[node].size() > kSizeDigits) all += nodes_[node].substr(kSizeDigits, sizes_[node]);
  return all;
}

}  // namespace train
