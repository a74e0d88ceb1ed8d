// This file lets a plain struct list its fields once. Code that writes the struct as MessagePack or
// JSON takes the names from there, and the struct itself needs no library.
#pragma once

namespace train {

/// Name the fields of a struct, inside it: `TRAIN_FIELDS(rank, pid)`. kFieldNames is then "rank,
/// pid", and visit_fields(f) calls f(rank, pid). Without arguments the struct has no fields.
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

/// The same for a struct that is sent very often: it is written as an array, without its fields'
/// names. New fields go to the end.
#define TRAIN_ARRAY(...)               \
  static constexpr bool kArray = true; \
  TRAIN_FIELDS(__VA_ARGS__)

}  // namespace train
