// Prints what happens in a sweep: for a person at a terminal, as lines, or as JSON.
#pragma once

#include <string>

#include "launcher/core/search/search_controller.h"
#include "launcher/report/progress.h"
#include "launcher/report/sweep_text.h"
#include "lib/base/time.h"

namespace train {

class SweepScreen {
 public:
  SweepScreen(OutputMode mode, const SearchController& search) : mode_(mode), search_(search) {}

  void began(const std::string& name, const std::string& folder, int at_once, bool resumed);
  void trial_started(int trial);
  void trial_ended(int trial);
  /// It goes on from another one's checkpoint.
  void trial_exploited(int trial);
  /// Show the running trials again, if it is time and this is a terminal.
  void refresh(TimePoint now);
  void warn(const std::string& text);
  void ended(int code, const std::string& cause, const std::string& folder, bool can_be_resumed);

 private:
  void say(const std::string& line);
  void print_event(boost::json::object event);
  void draw(const std::string& lasting, bool with_table);

  const OutputMode mode_;
  const SearchController& search_;
  DrawnLines drawn_;
  TimePoint drawn_at_ = {};
};

}  // namespace train
