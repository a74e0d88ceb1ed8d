// The one header of the SDK that programs without LibTorch need. Programs with LibTorch include
// <train/torch.h>, programs with datasets <train/dataset.h>.
#pragma once

#include <train/checkpoint.h>
#include <train/config.h>
#include <train/context.h>
#include <train/error.h>
#include <train/histogram.h>
#include <train/progress.h>
#include <train/report.h>
#include <train/serve.h>
#include <train/validation.h>

#include <functional>
#include <type_traits>

namespace train {

namespace detail {
int run_loop(int argc, char** argv, const std::function<int(const Config&)>& loop);
}

/// Run the training loop and return the process's exit code: 0 when the loop returns or is stopped
/// gracefully (train::Stopped), 1 when it throws, 2 for an unknown --trainrun- flag. Before it
/// returns, run() sends the error's text, type and stack to the launcher as this rank's cause,
/// waits for the writers of checkpoints, and hands over all reports and checkpoints (up to 30 s).
/// `loop` takes `const train::Config&` or nothing. If it returns int, that is the exit code; any
/// other value that converts to train::Value goes to set_result(). Call run() once, from main.
/// Flags that begin with --trainrun- are the SDK's own; all others are the program's.
template <class Loop>
int run(int argc, char** argv, Loop&& loop) {
  return detail::run_loop(argc, argv, [&](const Config& config) -> int {
    const auto call = [&]() -> decltype(auto) {
      if constexpr (std::is_invocable_v<Loop&, const Config&>) {
        return loop(config);
      } else {
        static_assert(std::is_invocable_v<Loop&>,
                      "the loop takes a const train::Config&, or nothing");
        return loop();
      }
    };
    using Returned = std::decay_t<decltype(call())>;
    if constexpr (std::is_void_v<Returned>) {
      call();
      return 0;
    } else if constexpr (std::is_same_v<Returned, int>) {
      return call();
    } else {
      set_result(Value(call()));
      return 0;
    }
  });
}

}  // namespace train
