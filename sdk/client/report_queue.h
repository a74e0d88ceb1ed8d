// Holds reports between report() and the launcher's acknowledgement, in order, as the bytes of
// batches. Pure: its owner locks it. Sent batches are counted, not kept: the link to the supervisor
// lives as long as the supervisor, and this process does not outlive it, so nothing is ever sent
// twice. The count bounds how far a worker runs ahead of the disk.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

namespace train::sdk {

inline constexpr std::size_t kReportQueueBytesMax = 8u << 20;  // not yet acknowledged, sent or not
inline constexpr std::size_t kReportBatchBytesMax = 256u << 10;  // of a frame's payload

class ReportQueue {
 public:
  struct Batch {
    std::uint64_t first_report_seq = 0;
    std::uint32_t count = 0;
    std::string data;
  };

  bool has_capacity(std::size_t bytes) const {
    return held_bytes_ == 0 || held_bytes_ + bytes <= kReportQueueBytesMax;
  }
  /// Add the bytes of one report (append_report) and return its report_seq, from 1.
  std::uint64_t append(std::string_view report);
  /// Take the oldest batch that has not been taken yet, to send it now.
  std::optional<Batch> take();
  /// Give a sent batch's buffer back, so that the next batch needs no allocation.
  void recycle(std::string buffer);
  /// Note that `report_seq` and all before it are on disk.
  void acknowledge(std::uint64_t report_seq);

  std::uint64_t last_report_seq() const { return last_report_seq_; }
  std::uint64_t taken_seq() const { return taken_seq_; }
  std::size_t held_bytes() const { return held_bytes_; }
  std::size_t unsent_bytes() const { return unsent_bytes_; }

 private:
  struct Sent {
    std::uint64_t last_report_seq = 0;
    std::size_t bytes = 0;
  };
  std::deque<Batch> unsent_;
  std::deque<Sent> sent_;
  std::string spare_;
  std::uint64_t last_report_seq_ = 0, taken_seq_ = 0;
  std::size_t held_bytes_ = 0, unsent_bytes_ = 0;
};

}  // namespace train::sdk
