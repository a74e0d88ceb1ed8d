#include "tests/sim/timeline.h"

#include <cstdio>

namespace train::sim {
namespace {

constexpr std::size_t kTailLines = 120;

}  // namespace

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Duration Random::between(Duration low, Duration high) {
  return low + Duration(static_cast<std::int64_t>(
                   below(static_cast<std::uint64_t>((high - low).count()) + 1)));
}

void Timeline::after(Duration delay, std::function<void()> what) {
  queue_.push({now_ + delay, order_++, std::move(what)});
}

bool Timeline::step() {
  if (queue_.empty()) return false;
  Event event = std::move(const_cast<Event&>(
      queue_.top()));  // top() is const only to protect the order, which pop() ends
  queue_.pop();
  now_ = event.at;
  event.what();
  return true;
}

void Timeline::add_line(std::string line) {
  line = fmt::format("{:>12.6f}  {}",
                     std::chrono::duration<double>(now_.time_since_epoch()).count(), line);
  for (const char c : line) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 1099511628211u;
  if (print) std::printf("%s\n", line.c_str());
  lines_.push_back(std::move(line));
  if (lines_.size() > kTailLines) lines_.pop_front();
}

std::string Timeline::tail() const { return fmt::format("{}\n", fmt::join(lines_, "\n")); }

}  // namespace train::sim
