// The advice for users if a store refuses or cannot be reached. Each kind of store has its own
// texts.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/error.h"

namespace train::remote {

struct StoreHints {
  std::string_view not_found, permission, unavailable;

  std::string of(Errc code) const {
    switch (code) {
      case Errc::NotFound:
        return std::string(not_found);
      case Errc::Permission:
        return std::string(permission);
      case Errc::Unavailable:
        return std::string(unavailable);
      default:
        return {};
    }
  }
};

}  // namespace train::remote
