#include "lib/progress/dataset_meters.h"

#include <algorithm>
#include <map>

#include "lib/progress/data_reader.h"
#include "lib/progress/progress_clock.h"

namespace train {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

// One thread at a time writes, so a plain load and store suffice.
void add_to(OperatorSlot::Number& number, std::uint64_t amount) {
  number.store(number.load(kRelaxed) + amount, kRelaxed);
}

void begin(OperatorSlot::Number& since, std::uint64_t now) { since.store(now, kRelaxed); }

void end(OperatorSlot::Number& since, OperatorSlot::Number& total, std::uint64_t now) {
  const std::uint64_t began = since.load(kRelaxed);
  if (began == 0) return;
  // In this order, a reader in between misses the time rather than counts it twice.
  since.store(0, kRelaxed);
  if (now > began) add_to(total, now - began);
}

void set_text(ProgressPage::Text<kDataNameBytesMax>& to, std::string_view text) {
  const std::size_t size = std::min(text.size(), kDataNameBytesMax);
  to.size.store(size, kRelaxed);
  for (std::size_t i = 0; i < size; ++i) to.bytes[i].store(text[i], kRelaxed);
}

std::uint64_t amount_of(std::int64_t number) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(number, 0));
}

}  // namespace

void DataMeter::passed(std::int64_t rows, std::int64_t bytes) {
  add_to(slot_->rows, amount_of(rows));
  add_to(slot_->bytes, amount_of(bytes));
}
void DataMeter::worked(std::int64_t ns) { add_to(slot_->busy, amount_of(ns)); }
void DataMeter::begin_work(std::uint64_t now) { begin(slot_->working_since, now); }
void DataMeter::end_work(std::uint64_t now) { end(slot_->working_since, slot_->busy, now); }
void DataMeter::begin_wait(std::uint64_t now) { begin(slot_->waiting_since, now); }
void DataMeter::end_wait(std::uint64_t now) { end(slot_->waiting_since, slot_->waited, now); }
void DataMeter::set_queue(std::int64_t bytes) {
  slot_->queue_bytes.store(amount_of(bytes), kRelaxed);
}

DatasetMeters::DatasetMeters(DataPage& page, std::string_view dataset, bool filters,
                             const std::vector<std::string>& maps)
    : filters_(filters) {
  add(page, dataset, OperatorKind::Index, {});
  add(page, dataset, OperatorKind::Decode, {});
  if (filters) add(page, dataset, OperatorKind::Filter, {});
  add(page, dataset, OperatorKind::Gather, {});
  std::map<std::string_view, int> times;
  for (const std::string& map : maps) {
    const int time = ++times[map];
    const std::string number = time == 1 ? "" : " (" + std::to_string(time) + ")";
    const std::size_t name_bytes = std::min(map.size(), kDataNameBytesMax - number.size());
    add(page, dataset, OperatorKind::Map, map.substr(0, name_bytes) + number);
  }
  add(page, dataset, OperatorKind::Batch, {});
  add(page, dataset, OperatorKind::Loop, {});
}

void DatasetMeters::add(DataPage& page, std::string_view dataset, OperatorKind kind,
                        std::string_view map) {
  const std::uint64_t used = page.used.load(kRelaxed);
  if (used >= page.slots.size()) private_slots_.push_back(std::make_unique<OperatorSlot>());
  OperatorSlot& slot = used < page.slots.size() ? page.slots[used] : *private_slots_.back();
  slot.kind.store(static_cast<std::uint64_t>(kind), kRelaxed);
  set_text(slot.dataset, dataset);
  set_text(slot.map, map);
  if (used < page.slots.size()) page.used.store(used + 1, std::memory_order_release);
  meters_.emplace_back(slot);
}

std::vector<DataOperator> DatasetMeters::read(std::uint64_t now) const {
  std::vector<DataOperator> operators;
  for (const DataMeter& meter : meters_) operators.push_back(read_operator(meter.slot(), now));
  set_waits(operators);
  return operators;
}

void DatasetMeters::put_to_work(DataMeter* next) {
  const std::uint64_t now = progress_now();
  if (at_work_ != nullptr) at_work_->end_work(now);
  at_work_ = next;
  if (next != nullptr) next->begin_work(now);
}

DatasetMeters::Working::Working(DatasetMeters* meters, DataMeter* which) : meters_(meters) {
  if (meters_ == nullptr) return;
  before_ = meters_->at_work_;
  meters_->put_to_work(which);
}

DatasetMeters::Working::Working(DatasetMeters* meters, DataMeter& (DatasetMeters::*which)())
    : Working(meters, meters == nullptr ? nullptr : &(meters->*which)()) {}

DatasetMeters::Working::~Working() {
  if (meters_ != nullptr) meters_->put_to_work(before_);
}

}  // namespace train
