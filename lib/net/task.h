// The type of a flow: a coroutine that ends with a Result. A flow reads from top to bottom;
// within.h gives it a deadline, scope.h an owner. A flow whose owner cancels it gets
// Errc::Cancelled from what it waits for, and must then return.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "lib/base/result.h"

namespace train {

namespace asio = boost::asio;

template <class T>
using Task = asio::awaitable<Result<T>>;

}  // namespace train
