// Overloaded lets std::visit take one lambda for each alternative. Code that misses an alternative
// does not compile.
#pragma once

namespace train {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace train
