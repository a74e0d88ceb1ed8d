// The one error type. An Error is a value that a policy can look at: its kind, what happened in
// words, and what the reader can do about it. Messages are lower case, without a final full stop,
// and name the found and the needed value.
#pragma once

#include <boost/assert/source_location.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace train {

enum class Errc {
  InvalidArgument,    // the caller's input cannot be used as it is
  InvalidSpec,        // the job's YAML
  NotFound,           // a file, a run, a key
  AlreadyExists,      // a name that was to be new
  Permission,         // the system refused
  Unauthenticated,    // the peer did not prove who it is
  Unavailable,        // nobody answers there; trying again may help
  Timeout,            // a deadline passed
  Cancelled,          // we stopped waiting ourselves
  Io,                 // a system call on a file failed
  NoSpace,            // ENOSPC, EDQUOT
  Protocol,           // bytes that are not what the protocol says
  Fenced,             // an older generation or attempt
  Corrupt,            // stored bytes do not match their checksum
  ResourceExhausted,  // a named limit is hit
  Internal,           // our own bug
};

/// Return the name of an Errc as it is written in exit.json and in logs ("invalid_spec").
std::string_view to_string(Errc code);
/// Return the Errc of that name, or Internal for an unknown name, which a newer peer may send.
Errc errc_of(std::string_view name);

struct Error {
  Errc code = Errc::Internal;
  std::string message;
  std::string hint = {};  // what to do; empty where there is nothing to say

  /// Prepend what was being done: "starting rank 3 on node-b: permission denied".
  Error with_context(std::string_view doing) &&;
  /// Return "message (hint)", for a terminal or a log.
  std::string describe() const;

  bool operator==(const Error&) const = default;
};

/// Turn errno (saved by the caller) into an Error that names the path.
Error system_error(int error_number, std::string_view doing);

/// Called by boost::system::result::value() when it holds an error. This is our own bug, since
/// callers check results first.
[[noreturn]] void throw_exception_from_error(const Error& error,
                                             const boost::source_location& where);

}  // namespace train
