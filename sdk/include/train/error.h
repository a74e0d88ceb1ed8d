// What the SDK throws. Inside trainrun an error is a value; user code gets one exception type.
#pragma once

#include <stdexcept>
#include <string>

namespace train {

/// Something that a call could not do: what(), where, why and what to do are in its text. `kind()`
/// is a stable name
/// ("invalid_argument", "unavailable", "timeout", "corrupt", …; the list is lib/base/error.h).
class Failure : public std::runtime_error {
 public:
  Failure(std::string kind, const std::string& message)
      : std::runtime_error(message), kind_(std::move(kind)) {}
  const std::string& kind() const noexcept { return kind_; }

 private:
  std::string kind_;
};

/// Thrown by report() and by the collectives when the run is being stopped gracefully (Ctrl-C, a
/// stop condition, a preemption): the checkpoint is kept, and leaving the loop is all that is left
/// to do. train::run() turns it into a clean end of the worker. Not a Failure, so that `catch
/// (const train::Failure&)` does not swallow it.
class Stopped : public std::runtime_error {
 public:
  explicit Stopped(const std::string& reason) : std::runtime_error(reason) {}
};

}  // namespace train
