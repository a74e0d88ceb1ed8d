// Turns an Error, which trainrun uses internally, into the exception that user code gets. Called at
// the SDK's public boundary.
#pragma once

#include <train/error.h>

#include "lib/base/result.h"

namespace train::sdk {

[[noreturn]] void throw_failure(const Error& error);

/// Return the value, or throw its error as a Failure.
template <class T>
T value_or_throw(Result<T> result) {
  if (result.has_error()) throw_failure(result.error());
  return std::move(*result);
}

}  // namespace train::sdk
