#include "launcher/cluster/run/driver_events.h"

#include <algorithm>
#include <utility>

#include "lib/base/secrets.h"

namespace train {
namespace {

ProgressOptions for_driver(ProgressOptions options) {
  options.mode = OutputMode::Json;
  options.color = false;
  options.for_driver = true;
  return options;
}

}  // namespace

DriverEvents::DriverEvents(ProgressOptions options, Moment at)
    : progress_(for_driver(std::move(options)), at) {}

void DriverEvents::put(std::string line) {
  if (line.empty() || sinks_.empty()) return;
  if (!held_.empty()) return held_.push_back({.line = std::move(line)});
  pass_on(line, false);
}

// Never held back: what is held back waits for this.
void DriverEvents::logged(std::uint64_t bytes, Moment at) {
  if (bytes <= std::exchange(logged_, bytes) || sinks_.empty()) return;
  pass_on(progress_.logged(bytes, at), true);
}

void DriverEvents::hold_until(std::uint64_t flush) {
  if (!sinks_.empty() && flush > flushed_) held_.push_back({.until = flush});
}

void DriverEvents::flushed(std::uint64_t flush) {
  flushed_ = std::max(flushed_, flush);
  while (!held_.empty() && held_.front().until <= flushed_) {
    const Held held = std::move(held_.front());
    held_.pop_front();
    if (!held.line.empty()) pass_on(held.line, false);
  }
}

void DriverEvents::pass_on(const std::string& line, bool newest) {
  const std::string text = redacted(line);
  for (const Sink& sink : sinks_) sink(text, newest);
}

}  // namespace train
