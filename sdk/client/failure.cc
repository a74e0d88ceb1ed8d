#include "sdk/client/failure.h"

namespace train::sdk {

void throw_failure(const Error& error) {
  throw Failure(std::string(to_string(error.code)), error.describe());
}

}  // namespace train::sdk
