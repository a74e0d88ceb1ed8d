// What the spec says of how workers find each other: the launcher writes it, and supervisors make
// variables, servers and hooks of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/fields.h"

namespace train {

/// The supervisors' own collectives, for backends, have a numbering of their own after this number.
/// No worker may use it.
inline constexpr std::uint64_t kBackendCollectives = 1ull << 63;

struct BackendProfile {
  std::string name = "torch";  // as in the spec: torch, none, tensorflow, jax, mpi, custom, horovod
  std::string pmi = {};        // mpi: pmi1 | pmix
  // custom: commands; empty: none
  std::vector<std::string> publish = {}, on_start = {}, on_training_start = {}, on_shutdown = {};
  std::int64_t hook_timeout_ms = 300000;  // custom: for each of them
  bool operator==(const BackendProfile&) const = default;
  TRAIN_FIELDS(name, pmi, publish, on_start, on_training_start, on_shutdown, hook_timeout_ms)
};

}  // namespace train
