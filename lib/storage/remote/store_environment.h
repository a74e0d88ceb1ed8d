// This file reads the variables that configure access to a store, first from the submitter's
// environment, then from this process's.
#pragma once

#include <cstdlib>
#include <string>

#include "lib/storage/object_store.h"

namespace train::remote {

/// Return the variable's value; empty if neither environment sets it.
inline std::string variable(const ObjectStoreOptions& options, const char* name) {
  if (const auto found = options.environment.find(name); found != options.environment.end())
    return found->second;
  const char* own = std::getenv(name);
  return own != nullptr ? own : "";
}

inline std::string first_of(const ObjectStoreOptions& options, const char* name,
                            const char* other) {
  std::string value = variable(options, name);
  return value.empty() ? variable(options, other) : value;
}

}  // namespace train::remote
