// The fields of a plain struct, named once: whoever writes it as MessagePack or JSON finds them
// here, and the struct itself needs no library.
#pragma once

namespace train {

/// In a struct: `TRAIN_FIELDS(rank, pid)`. kFieldNames is "rank, pid"; visit_fields(f) calls
/// f(rank, pid). Without arguments: none.
#define TRAIN_FIELDS(...)                                  \
  static constexpr const char* kFieldNames = #__VA_ARGS__; \
  template <class Visitor>                                 \
  decltype(auto) visit_fields(Visitor&& visitor) {         \
    return visitor(__VA_ARGS__);                           \
  }                                                        \
  template <class Visitor>                                 \
  decltype(auto) visit_fields(Visitor&& visitor) const {   \
    return visitor(__VA_ARGS__);                           \
  }

}  // namespace train
