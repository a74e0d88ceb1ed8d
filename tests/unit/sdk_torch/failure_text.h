#pragma once

#include <train/error.h>

#include <string>

namespace train::testing {

/// Return "kind: text" of the Failure that the call throws, or "none" if it throws none.
template <class Call>
std::string failure(Call&& call) {
  try {
    call();
    return "none";
  } catch (const Failure& error) {
    return error.kind() + ": " + error.what();
  }
}

}  // namespace train::testing
