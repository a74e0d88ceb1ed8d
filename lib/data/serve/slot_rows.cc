#include "lib/data/serve/slot_rows.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/ipc/reader.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <cstring>

#include "lib/base/check.h"
#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

constexpr std::string_view kSending = "cannot hand rows over";
constexpr std::string_view kReceiving = "cannot use the rows of an ingest worker";
constexpr int kAlignment = 64;       // of the bodies of messages
constexpr int kBufferAlignment = 8;  // of their buffers, as IPC has it

std::int64_t rounded_up(std::int64_t bytes, int alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Keeps what would be written.
class Collector final : public arrow::ipc::internal::IpcPayloadWriter {
 public:
  explicit Collector(std::vector<arrow::ipc::IpcPayload>& payloads) : payloads_(payloads) {}
  arrow::Status WritePayload(const arrow::ipc::IpcPayload& payload) override {
    payloads_.push_back(payload);
    return arrow::Status::OK();
  }
  arrow::Status Close() override { return arrow::Status::OK(); }

 private:
  std::vector<arrow::ipc::IpcPayload>& payloads_;
};

/// Gives no memory to speak of: what is read lies in the slot. A body that claims to be compressed
/// would ask for as much as it likes.
class NoMemory final : public arrow::MemoryPool {
 public:
  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    if (size > kSmall) return arrow::Status::OutOfMemory("the rows do not lie in the slot");
    return pool_->Allocate(size, alignment, out);
  }
  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** ptr) override {
    if (new_size > kSmall) return arrow::Status::OutOfMemory("the rows do not lie in the slot");
    return pool_->Reallocate(old_size, new_size, alignment, ptr);
  }
  void Free(std::uint8_t* buffer, std::int64_t size, std::int64_t alignment) override {
    pool_->Free(buffer, size, alignment);
  }
  std::int64_t bytes_allocated() const override { return pool_->bytes_allocated(); }
  std::int64_t total_bytes_allocated() const override { return pool_->total_bytes_allocated(); }
  std::int64_t num_allocations() const override { return pool_->num_allocations(); }
  std::string backend_name() const override { return "none"; }

 private:
  static constexpr std::int64_t kSmall = 4096;
  arrow::MemoryPool* const pool_ = arrow::default_memory_pool();
};

arrow::MemoryPool* no_memory() {
  static NoMemory& pool = *new NoMemory;  // rows may live until the process ends
  return &pool;
}

class SlotMessages final : public arrow::ipc::MessageReader {
 public:
  SlotMessages(const std::vector<SlotMessage>& messages, std::shared_ptr<arrow::Buffer> slot)
      : messages_(messages), slot_(std::move(slot)) {}
  arrow::Result<std::unique_ptr<arrow::ipc::Message>> ReadNextMessage() override {
    if (next_ == messages_.size()) return nullptr;
    const SlotMessage& message = messages_[next_++];
    const auto bytes = static_cast<std::uint64_t>(slot_->size());
    if (message.offset % kAlignment != 0 || message.offset > bytes ||
        message.bytes > bytes - message.offset)
      return arrow::Status::Invalid("a message does not lie in the slot");
    return arrow::ipc::Message::Open(
        arrow::Buffer::FromString(message.metadata),
        arrow::SliceBuffer(slot_, static_cast<std::int64_t>(message.offset),
                           static_cast<std::int64_t>(message.bytes)));
  }

 private:
  const std::vector<SlotMessage>& messages_;
  std::shared_ptr<arrow::Buffer> slot_;
  std::size_t next_ = 0;
};

/// Check that all offsets and lengths lie within the column. Texts are checked as bytes: files may
/// hold any.
arrow::Status validate(const arrow::Array& column) {
  auto type = column.type_id() == arrow::Type::STRING         ? arrow::binary()
              : column.type_id() == arrow::Type::LARGE_STRING ? arrow::large_binary()
                                                              : nullptr;
  if (!type) return column.ValidateFull();
  const auto bytes = column.data()->Copy();
  bytes->type = std::move(type);
  return arrow::MakeArray(bytes)->ValidateFull();
}

arrow::Status validate(const arrow::RecordBatch& rows) {
  for (const auto& column : rows.columns()) {
    if (column->length() != rows.num_rows())
      return arrow::Status::Invalid("a column has another number of rows");
    ARROW_RETURN_NOT_OK(validate(*column));
  }
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> read_rows(
    const std::vector<SlotMessage>& messages, std::shared_ptr<arrow::Buffer> slot) {
  arrow::ipc::IpcReadOptions options;
  options.memory_pool = no_memory();
  options.use_threads = false;
  options.ensure_native_endian = false;
  ARROW_ASSIGN_OR_RAISE(auto reader,
                        arrow::ipc::RecordBatchStreamReader::Open(
                            std::make_unique<SlotMessages>(messages, std::move(slot)), options));
  if (!reader->schema()->is_native_endian()) return arrow::Status::Invalid("other byte order");
  std::shared_ptr<arrow::RecordBatch> rows;
  ARROW_RETURN_NOT_OK(reader->ReadNext(&rows));
  if (!rows) return arrow::Status::Invalid("there are no rows");
  ARROW_RETURN_NOT_OK(validate(*rows));
  return rows;
}

}  // namespace

Result<Unit> check_rows(const arrow::RecordBatch& rows) {
  if (const auto valid = validate(rows); !valid.ok())
    return Error{Errc::Corrupt, error_from(valid, kReceiving).message};
  return Unit{};
}

Result<RowsToSend> RowsToSend::make(const arrow::RecordBatch& rows) {
  RowsToSend sent;
  arrow::ipc::IpcWriteOptions options;
  options.alignment = kAlignment;
  options.use_threads = false;
  ARROW_TRY(const auto writer, kSending,
            arrow::ipc::internal::OpenRecordBatchWriter(std::make_unique<Collector>(sent.payloads_),
                                                        rows.schema(), options));
  if (const auto written = writer->WriteRecordBatch(rows); !written.ok())
    return error_from(written, kSending);
  for (const auto& payload : sent.payloads_)
    sent.bytes_ += rounded_up(payload.body_length, kAlignment);
  return sent;
}

std::vector<SlotMessage> RowsToSend::copy_to(std::uint8_t* to) const {
  std::vector<SlotMessage> messages;
  std::int64_t begin = 0;
  for (const auto& payload : payloads_) {
    std::int64_t at = begin;
    for (const auto& buffer : payload.body_buffers) {
      if (!buffer || buffer->size() == 0) continue;
      const std::int64_t end = at + rounded_up(buffer->size(), kBufferAlignment);
      TRAIN_CHECK(end <= bytes_, "buffers fit into their message");
      std::memcpy(to + at, buffer->data(), static_cast<std::size_t>(buffer->size()));
      std::memset(to + at + buffer->size(), 0, static_cast<std::size_t>(end - at - buffer->size()));
      at = end;
    }
    TRAIN_CHECK(at - begin == payload.body_length, "a message has the length that it says");
    messages.push_back({.metadata = payload.metadata->ToString(),
                        .offset = static_cast<std::uint64_t>(begin),
                        .bytes = static_cast<std::uint64_t>(payload.body_length)});
    begin += rounded_up(payload.body_length, kAlignment);
  }
  return messages;
}

Result<std::shared_ptr<arrow::RecordBatch>> rows_in_slot(const std::vector<SlotMessage>& messages,
                                                         std::shared_ptr<arrow::Buffer> slot) {
  auto rows = read_rows(messages, std::move(slot));
  if (rows.ok()) return std::move(rows).ValueUnsafe();
  return Error{Errc::Corrupt, error_from(rows.status(), kReceiving).message};
}

}  // namespace train::data
