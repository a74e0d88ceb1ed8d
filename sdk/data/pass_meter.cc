#include "sdk/data/pass_meter.h"

#include "lib/progress/progress_clock.h"

namespace train::sdk {

void PassMeter::loop_asks() {
  if (!meters_) return;
  const std::uint64_t now = progress_now();
  meters_->loop().end_work(now);
  meters_->loop().begin_wait(now);
}

void PassMeter::loop_gets(std::int64_t rows, std::int64_t bytes) {
  if (!meters_) return;
  const std::uint64_t now = progress_now();
  meters_->loop().end_wait(now);
  meters_->loop().begin_work(now);
  meters_->loop().passed(rows, bytes);
}

void PassMeter::leave() {
  if (!meters_) return;
  const std::uint64_t now = progress_now();
  meters_->loop().end_wait(now);
  meters_->loop().end_work(now);
  meters_->batch().end_wait(now);
  meters_->batch().set_queue(0);
  meters_.reset();
}

void PassMeter::reader_waits() {
  if (meters_) meters_->batch().begin_wait(progress_now());
}

void PassMeter::reader_goes_on() {
  if (meters_) meters_->batch().end_wait(progress_now());
}

void PassMeter::made(std::int64_t rows, std::int64_t bytes) {
  if (meters_) meters_->batch().passed(rows, bytes);
}

void PassMeter::queue(std::int64_t bytes) {
  if (meters_) meters_->batch().set_queue(bytes);
}

}  // namespace train::sdk
