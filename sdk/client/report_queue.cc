#include "sdk/client/report_queue.h"

#include <utility>

namespace train::sdk {

std::uint64_t ReportQueue::append(std::string_view report) {
  if (unsent_.empty() || unsent_.back().data.size() + report.size() > kReportBatchBytesMax) {
    unsent_.push_back(
        {.first_report_seq = last_report_seq_ + 1, .count = 0, .data = std::exchange(spare_, {})});
  }
  Batch& batch = unsent_.back();
  batch.data.append(report);
  ++batch.count;
  held_bytes_ += report.size();
  unsent_bytes_ += report.size();
  return ++last_report_seq_;
}

std::optional<ReportQueue::Batch> ReportQueue::take() {
  if (unsent_.empty()) return std::nullopt;
  Batch batch = std::move(unsent_.front());
  unsent_.pop_front();
  unsent_bytes_ -= batch.data.size();
  taken_seq_ = batch.first_report_seq + batch.count - 1;
  sent_.push_back({.last_report_seq = taken_seq_, .bytes = batch.data.size()});
  return batch;
}

void ReportQueue::recycle(std::string buffer) {
  buffer.clear();
  if (buffer.capacity() > spare_.capacity()) spare_ = std::move(buffer);
}

void ReportQueue::acknowledge(std::uint64_t report_seq) {
  while (!sent_.empty() && sent_.front().last_report_seq <= report_seq) {
    held_bytes_ -= sent_.front().bytes;
    sent_.pop_front();
  }
}

}  // namespace train::sdk
