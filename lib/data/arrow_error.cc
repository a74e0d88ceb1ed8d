#include "lib/data/arrow_error.h"

#include <fmt/format.h>

namespace train::data {

Error error_from(const arrow::Status& status, std::string_view doing) {
  // Invalid, SerializationError and the like mean that bytes are not what they claim to be.
  Errc code = Errc::Corrupt;
  switch (status.code()) {
    case arrow::StatusCode::OutOfMemory:
      code = Errc::ResourceExhausted;
      break;
    case arrow::StatusCode::IOError:
      code = Errc::Io;
      break;
    case arrow::StatusCode::NotImplemented:
    case arrow::StatusCode::TypeError:
    case arrow::StatusCode::KeyError:
      code = Errc::InvalidArgument;
      break;
    case arrow::StatusCode::Cancelled:
      code = Errc::Cancelled;
      break;
    default:
      break;
  }
  return Error{code, fmt::format("{}: {}", doing, status.message())};
}

}  // namespace train::data
