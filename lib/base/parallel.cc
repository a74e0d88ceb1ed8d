#include "lib/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "lib/base/thread.h"

namespace train {

void in_parallel(std::size_t count, std::size_t threads_max,
                 const std::function<bool(std::size_t piece)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto run = [&] {
    for (std::size_t piece = next++; piece < count; piece = next++)
      if (!work(piece)) next = count;
  };
  const std::size_t processors = std::thread::hardware_concurrency();
  const std::size_t threads = std::min({count, processors, threads_max, kParallelMax});
  std::vector<std::thread> others;
  try {
    while (others.size() + 1 < threads) others.push_back(start_thread("trainrun-work", run));
  } catch (const std::system_error&) {  // the system has no more threads; fewer are enough
  }
  run();
  for (std::thread& other : others) other.join();
}

}  // namespace train
