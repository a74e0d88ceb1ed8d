// The keys and values that the processes of an MPI program exchange, and their places in it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// As the server announces them; longer ones are refused.
inline constexpr std::size_t kPmiNameBytesMax = 64;
inline constexpr std::size_t kPmiKeyBytesMax = 64;
inline constexpr std::size_t kPmiValueBytesMax = 1024;
/// What a rank may put between two barriers: a collective's part.
inline constexpr std::size_t kPmiPutBytesMax = 60u << 10;
/// All keys and values of a program.
inline constexpr std::size_t kPmiSpaceBytesMax = 64u << 20;

/// Return a name for the program of a run's attempt.
std::string pmi_space_name(const std::string& run_id, std::uint32_t attempt);

/// Return PMI_process_mapping: which ranks share a node, in runs of nodes with equally many, such
/// as
/// "(vector,(0,2,4))" for 2 nodes with 4 ranks each. Nothing if it would be too long for a value:
/// then MPICH asks each process for its host.
std::optional<std::string> pmi_process_mapping(const std::vector<std::int32_t>& node_sizes);

class PmiSpace {
 public:
  /// The whole program has `world_size` processes. `name`: that of no other program on any of its
  /// nodes, because MPICH names shared memory by it; see pmi_space_name().
  PmiSpace(std::string name, int world_size, const std::vector<std::int32_t>& node_sizes);

  const std::string& name() const { return name_; }
  int world_size() const { return world_size_; }
  std::optional<std::string> find(const std::string& key) const;
  /// Take what all ranks put before their `barrier`-th barrier, once.
  Result<Unit> merge(std::uint64_t barrier, const std::vector<std::string>& parts);

 private:
  std::string name_;
  int world_size_;
  std::map<std::string, std::string> values_;
  std::size_t bytes_ = 0;
  std::uint64_t merged_ = 0;
};

}  // namespace train
