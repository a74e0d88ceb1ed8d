// Overloaded lets std::visit take one lambda for each alternative. Code that misses an alternative
// does not compile.
#pragma once

namespace train {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
// GCC deduces this without a guide; clang 14, with which we analyse the code, does not.
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

}  // namespace train
