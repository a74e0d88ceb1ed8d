// The exceptions that the SDK throws. Inside trainrun, an error is a value; the SDK turns it into
// an exception for user code.
#pragma once

#include <stdexcept>
#include <string>

namespace train {

/// The failure of a call. The text in what() says what failed, where, why, and what to do. `kind()`
/// is a stable name ("invalid_argument", "unavailable", "timeout", "corrupt", …; the list is in
/// lib/base/error.h).
class Failure : public std::runtime_error {
 public:
  Failure(std::string kind, const std::string& message)
      : std::runtime_error(message), kind_(std::move(kind)) {}
  const std::string& kind() const noexcept { return kind_; }

 private:
  std::string kind_;
};

/// Thrown by report() and by the collectives when the run is being stopped gracefully (Ctrl-C, a
/// stop condition, a preemption): the checkpoint is kept, and the loop only needs to end.
/// train::run() turns it into a clean end of the worker. It is not a Failure, so that `catch (const
/// train::Failure&)` does not swallow it.
class Stopped : public std::runtime_error {
 public:
  explicit Stopped(const std::string& reason) : std::runtime_error(reason) {}
};

}  // namespace train
