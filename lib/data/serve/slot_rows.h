// Rows in a slot: Arrow's memory layout, as the bodies of IPC messages, whose metadata travel in a
// frame. Bodies begin at multiples of 64 bytes, and their buffers at multiples of 8. Reading makes
// no copy. What it reads is checked first: whatever a peer has sent, the rows that come of it lie
// within the slot.
#pragma once

#include <arrow/ipc/writer.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/data/serve/messages.h"

namespace train::data {

/// Rows on their way into a slot. It refers to their buffers.
class RowsToSend {
 public:
  static Result<RowsToSend> make(const arrow::RecordBatch& rows);
  /// Return how much of a slot they take.
  std::int64_t bytes() const { return bytes_; }
  /// Copy them; `to` has bytes() bytes, and begins at a multiple of 64.
  std::vector<SlotMessage> copy_to(std::uint8_t* to) const;

 private:
  std::vector<arrow::ipc::IpcPayload> payloads_;
  std::int64_t bytes_ = 0;
};

/// Return the rows that the messages describe, as views of `slot`. Corrupt if they are not whole.
Result<std::shared_ptr<arrow::RecordBatch>> rows_in_slot(const std::vector<SlotMessage>& messages,
                                                         std::shared_ptr<arrow::Buffer> slot);

/// Check rows that a peer has sent: that all offsets and lengths lie within their columns. Corrupt
/// if not.
Result<Unit> check_rows(const arrow::RecordBatch& rows);

}  // namespace train::data
