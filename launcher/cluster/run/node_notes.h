// Tells the user what nodes say of an attempt as they prepare it: each text once in a run.
#pragma once

#include <set>
#include <string>

#include "launcher/report/user_messages.h"
#include "lib/wire/attempt_messages.h"

namespace train {

class NodeNotes {
 public:
  explicit NodeNotes(UserMessages& messages) : messages_(messages) {}
  void prepared(const std::string& node, const Prepared& message);

 private:
  UserMessages& messages_;
  std::set<std::string> told_;
};

}  // namespace train
