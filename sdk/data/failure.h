// Turns errors of lib/data into the exception that user code sees.
#pragma once

#include <train/error.h>

#include "lib/base/result.h"

namespace train::sdk {

[[noreturn]] inline void throw_failure(const Error& error) {
  throw Failure(std::string(to_string(error.code)), error.describe());
}

template <class T>
T value_or_throw(Result<T> result) {
  if (result.has_error()) throw_failure(result.error());
  return std::move(*result);
}

}  // namespace train::sdk
