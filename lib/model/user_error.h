#pragma once

#include <string>

#include "lib/model/fields.h"

namespace train {

struct UserError {  // what user code threw
  std::string what, type, stack;
  bool operator==(const UserError&) const = default;
  TRAIN_FIELDS(what, type, stack)
};

}  // namespace train
