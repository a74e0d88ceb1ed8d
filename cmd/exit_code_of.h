// Turns an Error into the exit code of a command.
#pragma once

#include "lib/base/error.h"
#include "lib/base/exit_code.h"

namespace train {

/// Return the exit code of a command that cannot read what it was to show. `invalid`: that of
/// InvalidArgument.
inline int exit_code_of(const Error& error, int invalid = exit_code::kDamaged) {
  switch (error.code) {
    case Errc::NotFound:
      return exit_code::kNotFound;
    case Errc::AlreadyExists:
      return exit_code::kTaken;
    case Errc::Corrupt:
      return exit_code::kDamaged;
    case Errc::InvalidArgument:
      return invalid;
    case Errc::Permission:
      return exit_code::kPermission;
    case Errc::Cancelled:
      return exit_code::kInterrupted;
    case Errc::InvalidSpec:
    case Errc::Unauthenticated:
    case Errc::Unavailable:
    case Errc::Timeout:
    case Errc::Io:
    case Errc::NoSpace:
    case Errc::Protocol:
    case Errc::Fenced:
    case Errc::ResourceExhausted:
    case Errc::Internal:
      return exit_code::kIo;
  }
  return exit_code::kIo;
}

}  // namespace train
