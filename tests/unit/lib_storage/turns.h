// Runs the operations of several threads one at a time, in an order that a seed chooses. The same
// seed gives the same order.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

namespace train {

class Turns {
 public:
  explicit Turns(std::uint64_t seed) : random_(seed) {}

  /// Run `programs` concurrently. The i-th calls wait(i) before each of its operations.
  void run(const std::vector<std::function<void()>>& programs) {
    state_.assign(programs.size(), State::Busy);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < programs.size(); ++i)
      threads.emplace_back([&, i] {
        programs[i]();
        const std::lock_guard lock(mutex_);
        state_[i] = State::Ended;
        choose();
      });
    for (std::thread& thread : threads) thread.join();
  }

  void wait(std::size_t program) {
    std::unique_lock lock(mutex_);
    state_[program] = State::Waits;
    choose();
    changed_.wait(lock, [&] { return state_[program] == State::Busy; });
  }

 private:
  enum class State { Busy, Waits, Ended };

  /// Choose once nobody is busy, so that thread scheduling does not matter.
  void choose() {
    std::vector<std::size_t> waiting;
    for (std::size_t i = 0; i < state_.size(); ++i) {
      if (state_[i] == State::Busy) return;
      if (state_[i] == State::Waits) waiting.push_back(i);
    }
    if (waiting.empty()) return;
    state_[waiting[random_() % waiting.size()]] = State::Busy;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<State> state_;
  std::mt19937_64 random_;
};

}  // namespace train
