#include "lib/progress/data_reader.h"

#include <algorithm>

#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint64_t kNumberMax = std::uint64_t{1} << 55;  // so that sums of 64 stay in range

std::int64_t number_of(const OperatorSlot::Number& number) {
  return static_cast<std::int64_t>(std::min(number.load(kRelaxed), kNumberMax));
}

/// Return the time in microseconds: what has ended, and what has not.
std::int64_t time_of(const OperatorSlot::Number& ended, const OperatorSlot::Number& since,
                     std::uint64_t now) {
  const std::uint64_t began = since.load(kRelaxed);
  const std::uint64_t current = began != 0 && began < now ? now - began : 0;
  const std::uint64_t all =
      std::min(ended.load(kRelaxed), kNumberMax) + std::min(current, kNumberMax);
  return static_cast<std::int64_t>(all / 1000);
}

std::string text_of(const ProgressPage::Text<kDataNameBytesMax>& text) {
  const std::size_t size = std::min<std::uint64_t>(text.size.load(kRelaxed), kDataNameBytesMax);
  std::string read(size, '\0');
  for (std::size_t i = 0; i < size; ++i) read[i] = text.bytes[i].load(kRelaxed);
  return terminal_safe(utf8_text(read));
}

/// Return whether the reading thread does this.
bool in_chain(const DataOperator& one) {
  return one.kind >= OperatorKind::Decode && one.kind <= OperatorKind::Batch;
}

}  // namespace

DataOperator read_operator(const OperatorSlot& slot, std::uint64_t now) {
  const std::uint64_t kind =
      std::min<std::uint64_t>(slot.kind.load(kRelaxed), kOperatorKinds.size() - 1);
  DataOperator read{.dataset = text_of(slot.dataset),
                    .kind = static_cast<OperatorKind>(kind),
                    .map = text_of(slot.map),
                    .rows = number_of(slot.rows),
                    .bytes = number_of(slot.bytes),
                    .busy_us = time_of(slot.busy, slot.working_since, now),
                    .queue_bytes = number_of(slot.queue_bytes)};
  const std::int64_t waited = time_of(slot.waited, slot.waiting_since, now);
  if (read.kind == OperatorKind::Batch) read.room_us = waited;
  if (read.kind == OperatorKind::Loop) read.input_us = waited;
  return read;
}

void set_waits(std::vector<DataOperator>& operators) {
  for (DataOperator& one : operators) {
    if (!in_chain(one)) continue;
    bool earlier = true;
    std::int64_t input = 0, room = one.kind == OperatorKind::Batch ? one.room_us : 0;
    for (const DataOperator& other : operators) {
      if (&other == &one) {
        earlier = false;
        continue;
      }
      if (!in_chain(other) || other.dataset != one.dataset) continue;
      if (earlier)
        input += other.busy_us;
      else
        room += other.busy_us + (other.kind == OperatorKind::Batch ? other.room_us : 0);
    }
    one.input_us = input;
    // That of a Batch is what the others' follows from; it is the last one of its dataset.
    if (one.kind != OperatorKind::Batch) one.room_us = room;
  }
}

std::vector<DataOperator> read_data(const DataPage& page, std::uint64_t now) {
  const std::size_t used =
      std::min<std::uint64_t>(page.used.load(std::memory_order_acquire), kDataOperatorsMax);
  std::vector<DataOperator> operators;
  operators.reserve(used);
  for (std::size_t i = 0; i < used; ++i) operators.push_back(read_operator(page.slots[i], now));
  set_waits(operators);
  return operators;
}

}  // namespace train
