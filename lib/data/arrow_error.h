// This file converts arrow::Status to Error, where our code calls Arrow, and back, where Arrow
// calls our code.
#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <string_view>

#include "lib/base/result.h"

namespace train::data {

/// Turn a failed status into an Error: "<doing>: <Arrow's text>".
Error error_from(const arrow::Status& status, std::string_view doing);
/// Turn an error, which says itself what was being done, into a status that carries it:
/// error_from() returns it again, as long as nobody has made another status of it.
arrow::Status status_from(const Error& error);

}  // namespace train::data

/// Unwrap an arrow::Result, or return its error, in a function that returns Result<T>.
#define TRAIN_ARROW_TRY_IMPL(holder, declaration, doing, ...)                 \
  auto holder = (__VA_ARGS__);                                                \
  if (!holder.ok()) return ::train::data::error_from(holder.status(), doing); \
  declaration = std::move(holder).ValueUnsafe()
#define ARROW_TRY(declaration, doing, ...) \
  TRAIN_ARROW_TRY_IMPL(TRAIN_CONCAT(arrow_try_, __LINE__), declaration, doing, __VA_ARGS__)
