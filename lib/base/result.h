// Result<T> holds a value or an Error. TRY and CO_TRY unwrap a Result, or return its error from the
// function or coroutine.
//
//   TRY(auto manifest, read_manifest(store, id));   // declares `manifest`
//   TRY_VOID(store.sync());                         // Result<Unit>
#pragma once

#include <boost/system/result.hpp>

#include "lib/base/error.h"

namespace train {

/// The value of a Result that only tells whether something worked.
struct Unit {
  bool operator==(const Unit&) const = default;
};

template <class T>
using Result = boost::system::result<T, Error>;

}  // namespace train

#define TRAIN_CONCAT_IMPL(a, b) a##b
#define TRAIN_CONCAT(a, b) TRAIN_CONCAT_IMPL(a, b)
#define TRAIN_TRY_IMPL(leave, result, declaration, ...)    \
  auto result = (__VA_ARGS__);                             \
  if (result.has_error()) leave std::move(result).error(); \
  declaration = std::move(*result)
#define TRY(declaration, ...) \
  TRAIN_TRY_IMPL(return, TRAIN_CONCAT(try_, __LINE__), declaration, __VA_ARGS__)
#define CO_TRY(declaration, ...) \
  TRAIN_TRY_IMPL(co_return, TRAIN_CONCAT(try_, __LINE__), declaration, __VA_ARGS__)
#define TRY_VOID(...)                                                 \
  do {                                                                \
    auto try_result = (__VA_ARGS__);                                  \
    if (try_result.has_error()) return std::move(try_result).error(); \
  } while (false)
#define CO_TRY_VOID(...)                                                 \
  do {                                                                   \
    auto try_result = (__VA_ARGS__);                                     \
    if (try_result.has_error()) co_return std::move(try_result).error(); \
  } while (false)
