// Turns an Error of trainrun, or an exception of LibTorch, into the train::Failure that user code
// gets.
#pragma once

#include <train/error.h>

#include <exception>
#include <string>
#include <utility>

#include "lib/base/error.h"

namespace train::sdk {

[[noreturn]] inline void raise(const Error& error) {
  throw Failure(std::string(to_string(error.code)), error.describe());
}

/// Determine the kind of failure from LibTorch's text: a peer that is gone, one that is late, a
/// full disk, else a bug of ours or of the caller.
Error classify_torch_error(const std::string& what);

/// Return the text of a LibTorch exception without its C++ stack; for any other std::exception,
/// what().
std::string torch_error_text(const std::exception& error);

/// Call f. A LibTorch exception in it becomes a Failure that begins with `doing`.
template <class F>
auto guarded(const std::string& doing, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const Failure& failure) {
    throw Failure(failure.kind(), doing + ": " + failure.what());
  } catch (const std::exception& error) {
    raise(classify_torch_error(torch_error_text(error)).with_context(doing));
  }
}

}  // namespace train::sdk
