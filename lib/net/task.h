// The type of a flow: a coroutine that ends with a Result. The code of a flow reads from top to
// bottom; within.h gives it a deadline, scope.h an owner. When its owner cancels a flow, its wait
// returns Errc::Cancelled, and the flow must return.
#pragma once

#include <boost/asio/awaitable.hpp>

#include "lib/base/result.h"

namespace train {

namespace asio = boost::asio;

template <class T>
using Task = asio::awaitable<Result<T>>;

}  // namespace train
