#include "lib/base/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "lib/base/quota.h"

namespace train {

std::string_view to_string(Errc code) {
  switch (code) {
    case Errc::InvalidArgument:
      return "invalid_argument";
    case Errc::InvalidSpec:
      return "invalid_spec";
    case Errc::NotFound:
      return "not_found";
    case Errc::AlreadyExists:
      return "already_exists";
    case Errc::Permission:
      return "permission";
    case Errc::Unauthenticated:
      return "unauthenticated";
    case Errc::Unavailable:
      return "unavailable";
    case Errc::Timeout:
      return "timeout";
    case Errc::Cancelled:
      return "cancelled";
    case Errc::Io:
      return "io";
    case Errc::NoSpace:
      return "no_space";
    case Errc::Protocol:
      return "protocol";
    case Errc::Fenced:
      return "fenced";
    case Errc::Corrupt:
      return "corrupt";
    case Errc::ResourceExhausted:
      return "resource_exhausted";
    case Errc::Internal:
      return "internal";
  }
  return "unknown";
}

Errc errc_of(std::string_view name) {
  for (int code = 0; code < static_cast<int>(Errc::Internal); ++code) {
    if (to_string(static_cast<Errc>(code)) == name) return static_cast<Errc>(code);
  }
  return Errc::Internal;
}

Error Error::with_context(std::string_view doing) && {
  message = fmt::format("{}: {}", doing, message);
  return std::move(*this);
}

std::string Error::describe() const {
  return hint.empty() ? message : fmt::format("{} ({})", message, hint);
}

bool says_over_quota(std::string_view text) {
  return text.find(std::strerror(EDQUOT)) != std::string_view::npos;
}

Error system_error(int error_number, std::string_view doing) {
  Errc code = Errc::Io;
  std::string_view hint;
  switch (error_number) {
    case ENOENT:
      code = Errc::NotFound;
      break;
    case EEXIST:
      code = Errc::AlreadyExists;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = Errc::Permission;
      break;
    case EDQUOT:
      hint = kOverQuotaHint;
      [[fallthrough]];
    case ENOSPC:
      code = Errc::NoSpace;
      break;
    case ECONNREFUSED:
    case ECONNRESET:
    case ENETUNREACH:
    case EHOSTUNREACH:
    case EHOSTDOWN:
    case ENOTCONN:  // FUSE: its program is gone
    case ESTALE:    // NFS
    case EREMOTEIO:
      code = Errc::Unavailable;
      break;
    case ETIMEDOUT:
      code = Errc::Timeout;
      break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case EAGAIN:
      code = Errc::ResourceExhausted;
      break;
    default:
      break;
  }
  return Error{code, fmt::format("{}: {}", doing, std::strerror(error_number)), std::string(hint)};
}

void throw_exception_from_error(const Error& error, const boost::source_location& where) {
  throw std::logic_error(
      fmt::format("{}:{}: unchecked error: {}", where.file_name(), where.line(), error.describe()));
}

}  // namespace train
