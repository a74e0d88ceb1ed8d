// The interface for messages to the user of a running run. RunScreen shows them.
#pragma once

#include <string>
#include <string_view>

namespace train {

class UserMessages {
 public:
  virtual ~UserMessages() = default;
  /// Show what the run is doing now.
  virtual void phase(std::string_view text) = 0;
  /// Show a warning, and repeat it in the summary.
  virtual void warn(const std::string& text) = 0;
};

}  // namespace train
