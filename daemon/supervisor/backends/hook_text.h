// What the hooks of `backend: custom` print, and what workers and later hooks are told of it. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// The limit of a variable of an environment, below Linux's 128 KiB.
inline constexpr std::size_t kVariableBytesMax = 120u << 10;

/// Return the one JSON value that `publish` printed, without the spaces around it.
Result<std::string> published_value(std::string_view output);

/// Return TRAINRUN_PEERS: a JSON list of the values, by rank.
Result<std::string> peers_variable(const std::vector<std::string>& values);

/// Return the JSON value of a rank whose job has no `publish`: the addresses of its `per_worker`
/// ports among `peers`; null without ports.
std::string own_addresses(const std::vector<std::string>& peers, std::int32_t rank,
                          std::size_t per_worker);

/// Return the variables that `on_start` printed, NAME=VALUE on each line. Empty lines count for
/// nothing.
Result<std::map<std::string, std::string>> printed_variables(std::string_view output);

}  // namespace train
