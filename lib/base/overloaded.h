// std::visit with a lambda for each alternative: one that is missing does not compile.
#pragma once

namespace train {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};

}  // namespace train
