// Prints what happens to the replica groups of a run: as lines, or as JSON. What group 0 prints is
// passed on between these lines.
#pragma once

#include <string>
#include <string_view>

#include "launcher/core/groups/group_controller.h"
#include "launcher/report/progress.h"

namespace train {

class GroupsScreen {
 public:
  explicit GroupsScreen(OutputMode mode) : json_(mode == OutputMode::Json) {}

  void began(const std::string& name, const std::string& folder, int groups, int left,
             const std::string& lighthouse);
  void tell(const TellGroups& news);
  void warn(const std::string& text);
  /// Pass on what group 0 has printed: whole lines at once.
  void pass_on(std::string_view text);
  void ended(const EndGroups& end, const std::string& folder, bool can_be_resumed);

 private:
  const bool json_;
  std::string begun_;  // a line of group 0
};

}  // namespace train
