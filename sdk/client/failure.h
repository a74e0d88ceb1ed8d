// Turns an Error, as used inside, into the exception that user code gets. Called where the SDK's
// public face begins.
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
