// What a person reads while a command waits for an object store, and nothing else is on the
// terminal yet.
#pragma once

#include <functional>
#include <string>

namespace train {

/// For ObjectStoreOptions::on_retry: a line on the standard error stream, at once and then at most
/// one every 5 s. One thread at a time.
std::function<void(const std::string&)> say_store_trouble();

}  // namespace train
