#include "lib/data/arrow_error.h"

#include <fmt/format.h>

#include <memory>

namespace train::data {

namespace {

constexpr const char* kOurs = "trainrun";

class CarriedError final : public arrow::StatusDetail {
 public:
  explicit CarriedError(Error error) : error_(std::move(error)) {}
  const char* type_id() const override { return kOurs; }
  std::string ToString() const override { return error_.hint; }
  const Error& error() const { return error_; }

 private:
  const Error error_;
};

}  // namespace

arrow::Status status_from(const Error& error) {
  return {arrow::StatusCode::IOError, error.message, std::make_shared<CarriedError>(error)};
}

Error error_from(const arrow::Status& status, std::string_view doing) {
  if (status.detail() != nullptr && std::string_view(status.detail()->type_id()) == kOurs)
    return static_cast<const CarriedError&>(*status.detail()).error();
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
