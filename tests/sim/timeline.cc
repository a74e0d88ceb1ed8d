#include "tests/sim/timeline.h"

#include <algorithm>
#include <cstdio>

namespace train::sim {
namespace {

constexpr std::size_t kTailLines = 120;
constexpr std::size_t kChildren = 4;  // one or two cache lines per level; half the levels of two

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

std::uint32_t Timeline::take_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<std::uint32_t>(slots_.size() - 1);
  }
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void Timeline::push(const Entry& entry) {
  std::size_t hole = queue_.size();
  queue_.push_back(entry);
  while (hole > 0) {
    const std::size_t parent = (hole - 1) / kChildren;
    if (!entry.before(queue_[parent])) break;
    queue_[hole] = queue_[parent];
    hole = parent;
  }
  queue_[hole] = entry;
}

Timeline::Entry Timeline::pop() {
  const Entry first = queue_.front();
  const Entry last = queue_.back();
  queue_.pop_back();
  if (queue_.empty()) return first;
  std::size_t hole = 0;
  for (;;) {
    const std::size_t child = hole * kChildren + 1;
    if (child >= queue_.size()) break;
    std::size_t least = child;
    const std::size_t end = std::min(child + kChildren, queue_.size());
    for (std::size_t i = child + 1; i < end; ++i) {
      if (queue_[i].before(queue_[least])) least = i;
    }
    if (!queue_[least].before(last)) break;
    queue_[hole] = queue_[least];
    hole = least;
  }
  queue_[hole] = last;
  return first;
}

bool Timeline::step() {
  if (queue_.empty()) return false;
  const Entry entry = pop();
  now_ = entry.at;
  ++events_;
  hash_ = (hash_ ^ static_cast<std::uint64_t>(entry.at.time_since_epoch().count())) *
          1099511628211u;  // FNV-1a, eight bytes at a time
  hash_ = (hash_ ^ entry.order) * 1099511628211u;
  slots_[entry.slot].run();
  slots_[entry.slot].clear();
  free_slots_.push_back(entry.slot);
  return true;
}

void Timeline::add_line(std::string line) {
  line = fmt::format("{:>12.6f}  {}",
                     std::chrono::duration<double>(now_.time_since_epoch()).count(), line);
  if (print) std::printf("%s\n", line.c_str());
  lines_.push_back(std::move(line));
  if (lines_.size() > kTailLines) lines_.pop_front();
}

std::string Timeline::tail() const { return fmt::format("{}\n", fmt::join(lines_, "\n")); }

}  // namespace train::sim
