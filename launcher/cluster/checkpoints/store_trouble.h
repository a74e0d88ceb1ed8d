// Tells the user that a command waits for an object store if nothing else is on the terminal yet.
#pragma once

#include <functional>
#include <string>

namespace train {

/// Return a callback for ObjectStoreOptions::on_retry. It writes a line to stderr, at once and then
/// at most one every 5 s. One thread at a time may call it.
std::function<void(const std::string&)> say_store_trouble();

}  // namespace train
