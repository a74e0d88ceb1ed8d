// The one error type. An Error is a value that a policy can examine: its kind, what happened in
// words, and what the reader can do about it. Messages are lower case, without a final full stop,
// and name the value found and the value needed.
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
  AlreadyExists,      // the name is already taken
  Permission,         // the system refused
  Unauthenticated,    // the peer did not prove who it is
  Unavailable,        // no answer from the other side; trying again may help
  Timeout,            // a deadline passed
  Cancelled,          // we stopped waiting ourselves
  Io,                 // a system call on a file failed
  NoSpace,            // ENOSPC, EDQUOT
  Protocol,           // bytes that violate the protocol
  Fenced,             // an older generation or attempt
  Corrupt,            // stored bytes do not match their checksum
  ResourceExhausted,  // a named limit was reached
  Internal,           // our own bug
};

/// Return the name of an Errc as it is written in exit.json and in logs ("invalid_spec").
std::string_view to_string(Errc code);
/// Return the Errc of that name, or Internal for an unknown name, which a newer peer may send.
Errc errc_of(std::string_view name);

struct Error {
  Errc code = Errc::Internal;
  std::string message;
  std::string hint = {};  // what to do; empty if there is no advice

  /// Prepend what we were doing: "starting rank 3 on node-b: permission denied".
  Error with_context(std::string_view doing) &&;
  /// Return "message (hint)", for a terminal or a log.
  std::string describe() const;

  bool operator==(const Error&) const = default;
};

/// Turn errno (saved by the caller) into an Error that names the path.
Error system_error(int error_number, std::string_view doing);

/// Throw std::logic_error. boost::system::result::value() calls this if it holds an error, which is
/// a bug of ours, since callers check results first.
[[noreturn]] void throw_exception_from_error(const Error& error,
                                             const boost::source_location& where);

}  // namespace train
