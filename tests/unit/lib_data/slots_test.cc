#include "lib/data/serve/slots.h"

#include <arrow/array.h>
#include <arrow/array/builder_dict.h>
#include <arrow/buffer.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>

#include <cstring>
#include <random>

#include "lib/data/serve/slot_rows.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

FileDescriptor copy_of(int descriptor) {
  return FileDescriptor(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
}

TEST(SlotMemory, CanBeMappedByAnotherWhichCannotWriteToIt) {
  const auto memory = *SlotMemory::make(1 << 16);
  const auto mapped = *SlotMemory::map(copy_of(memory->descriptor()));
  memory->data()[7] = 1;
  EXPECT_EQ(mapped->data()[7], 1);

  mapped->data()[7] = 2;

  EXPECT_EQ(memory->data()[7], 1);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, memory->descriptor(), 0),
            MAP_FAILED);
  EXPECT_NE(::ftruncate(memory->descriptor(), 0), 0);
}

TEST(SlotMemory, ForgetsWhatWasWrittenToAMapping) {
  const auto memory = *SlotMemory::make(1 << 16);
  const auto mapped = *SlotMemory::map(copy_of(memory->descriptor()));
  mapped->data()[0] = 9;

  mapped->forget_writes();
  memory->data()[0] = 3;

  EXPECT_EQ(mapped->data()[0], 3);
}

TEST(SlotMemory, IsRefusedWhereItCouldShrinkOrIsNone) {
  const FileDescriptor unsealed(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), 4096), 0);
  const FileDescriptor empty(::memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const FileDescriptor null(::open("/dev/null", O_RDWR | O_CLOEXEC));

  EXPECT_EQ(SlotMemory::map(copy_of(unsealed.get())).error().code, Errc::Protocol);
  EXPECT_EQ(SlotMemory::map(copy_of(empty.get())).error().code, Errc::Protocol);
  EXPECT_EQ(SlotMemory::map(copy_of(null.get())).error().code, Errc::Protocol);
  EXPECT_EQ(SlotMemory::map(FileDescriptor()).error().code, Errc::Protocol);
}

TEST(SlotArena, UsesSlotsAgain) {
  SlotArena arena(1 << 20);
  const auto first = *arena.take(100'000);
  EXPECT_TRUE(first.is_new);
  ASSERT_TRUE(arena.release(first.slot).has_value());

  const auto again = *arena.take(90'000);

  EXPECT_EQ(again.slot, first.slot);
  EXPECT_FALSE(again.is_new);
  EXPECT_TRUE((*arena.take(90'000)).is_new);
}

TEST(SlotArena, MakesLargerOnesWhenAnswersGrow) {
  SlotArena arena(1 << 20);
  const auto small = *arena.take(10'000);
  ASSERT_TRUE(arena.release(small.slot).has_value());

  const auto large = *arena.take(1 << 20);

  EXPECT_TRUE(large.is_new);
  EXPECT_GE(large.memory->bytes(), 1 << 20);
}

TEST(SlotArena, HasNoRoomBeyondItsBytesOrItsSlots) {
  SlotArena arena(1 << 20);
  ASSERT_TRUE(arena.take(1 << 20).has_value());
  EXPECT_FALSE(arena.has_room());

  SlotArena many(std::int64_t{1} << 40);
  for (std::size_t slot = 0; slot < kSlotsMax; ++slot) {
    ASSERT_TRUE(many.has_room());
    ASSERT_TRUE(many.take(1).has_value());
  }
  EXPECT_FALSE(many.has_room());
}

TEST(SlotArena, RefusesToTakeBackWhatItHasNotGiven) {
  SlotArena arena(1 << 20);
  const auto taken = *arena.take(1);
  ASSERT_TRUE(arena.release(taken.slot).has_value());

  EXPECT_EQ(arena.release(taken.slot).error().code, Errc::Protocol);
  EXPECT_EQ(arena.release(kSlotsMax).error().code, Errc::Protocol);
}

TEST(SlotTable, ReleasesASlotWithTheLastSliceOfIt) {
  const auto memory = *SlotMemory::make(1 << 16);
  SlotTable table;
  ASSERT_TRUE(table.set(4, copy_of(memory->descriptor())).has_value());
  std::shared_ptr<arrow::Buffer> slice;
  {
    const auto buffer = *table.use(4);
    slice = arrow::SliceBuffer(buffer, 64, 64);
    EXPECT_EQ(table.held(), 1u);
    EXPECT_EQ(table.held_bytes(), 1 << 16);
  }
  EXPECT_THAT(table.take_released(), testing::IsEmpty());

  slice.reset();

  EXPECT_THAT(table.take_released(), testing::ElementsAre(4));
  EXPECT_THAT(table.take_released(), testing::IsEmpty());
  EXPECT_EQ(table.held(), 0u);
  EXPECT_EQ(table.held_bytes(), 0);
}

TEST(SlotTable, RefusesASlotThatIsInUseOrIsNone) {
  const auto memory = *SlotMemory::make(1 << 16);
  SlotTable table;
  ASSERT_TRUE(table.set(0, copy_of(memory->descriptor())).has_value());
  const auto buffer = *table.use(0);

  EXPECT_EQ(table.use(0).error().code, Errc::Protocol);
  EXPECT_EQ(table.set(0, copy_of(memory->descriptor())).error().code, Errc::Protocol);
  EXPECT_EQ(table.use(1).error().code, Errc::Protocol);
  EXPECT_EQ(table.use(kSlotsMax).error().code, Errc::Protocol);
}

TEST(SlotTable, MayBeGoneBeforeItsBuffers) {
  const auto memory = *SlotMemory::make(1 << 16);
  memory->data()[5] = 8;
  std::shared_ptr<arrow::Buffer> buffer;
  {
    SlotTable table;
    ASSERT_TRUE(table.set(0, copy_of(memory->descriptor())).has_value());
    buffer = *table.use(0);
  }
  EXPECT_EQ(buffer->data()[5], 8);
}

/// Rows with columns of all kinds of layout, also with nulls, from the middle of a batch.
std::shared_ptr<arrow::RecordBatch> rows_of_all_kinds() {
  const std::int64_t count = 50;
  arrow::BooleanBuilder flags;
  arrow::StringDictionaryBuilder words;
  arrow::ListBuilder lists(arrow::default_memory_pool(), std::make_shared<arrow::FloatBuilder>());
  for (std::int64_t i = 0; i < count; ++i) {
    must(i % 3 == 0 ? flags.AppendNull() : flags.Append(i % 2 == 0));
    must(words.Append(i % 4 == 0 ? "one" : "two"));
    must(i % 5 == 0 ? lists.AppendNull() : lists.Append());
    if (i % 5 != 0)
      for (std::int64_t k = 0; k < i % 7; ++k)
        must(static_cast<arrow::FloatBuilder*>(lists.value_builder())->Append(0.5f));
  }
  auto rows = must(numbered_rows(0, count)->CombineChunksToBatch());
  rows = must(rows->AddColumn(3, "flag", must(flags.Finish())));
  rows = must(rows->AddColumn(4, "word", must(words.Finish())));
  rows = must(rows->AddColumn(5, "list", must(lists.Finish())));
  return rows->Slice(9, 30);
}

struct InSlot {
  std::unique_ptr<SlotMemory> memory;
  std::vector<SlotMessage> messages;
  std::shared_ptr<arrow::Buffer> buffer() const {
    return std::make_shared<arrow::Buffer>(memory->data(), memory->bytes());
  }
};

InSlot in_slot(const arrow::RecordBatch& rows) {
  const RowsToSend sent = *RowsToSend::make(rows);
  InSlot slot{.memory = *SlotMemory::make(std::max<std::int64_t>(sent.bytes(), 1)), .messages = {}};
  slot.messages = sent.copy_to(slot.memory->data());
  return slot;
}

/// Return whether all memory of an array lies in the slot, aligned as Arrow needs it.
bool lies_in(const arrow::ArrayData& data, const SlotMemory& memory) {
  for (const auto& buffer : data.buffers) {
    if (!buffer || buffer->size() == 0) continue;
    const auto offset = buffer->data() - memory.data();
    if (offset < 0 || offset + buffer->size() > memory.bytes() || offset % 8 != 0) return false;
  }
  for (const auto& child : data.child_data)
    if (!lies_in(*child, memory)) return false;
  return data.dictionary == nullptr || lies_in(*data.dictionary, memory);
}

TEST(SlotRows, AreThoseThatWereSentAndLieInTheSlot) {
  const auto rows = rows_of_all_kinds();
  const InSlot slot = in_slot(*rows);

  const auto read = *rows_in_slot(slot.messages, slot.buffer());

  EXPECT_TRUE(read->Equals(*rows)) << read->ToString();
  for (const auto& column : read->columns()) EXPECT_TRUE(lies_in(*column->data(), *slot.memory));
}

TEST(SlotRows, MayBeNone) {
  const auto rows = rows_of_all_kinds()->Slice(0, 0);
  const InSlot slot = in_slot(*rows);

  EXPECT_TRUE((*rows_in_slot(slot.messages, slot.buffer()))->Equals(*rows));
}

TEST(SlotRows, MayHaveTextsThatAreNoUtf8) {
  arrow::StringBuilder texts;
  must(texts.Append("\xff\xfe"));
  const auto rows = arrow::RecordBatch::Make(arrow::schema({arrow::field("text", arrow::utf8())}),
                                             1, {must(texts.Finish())});
  const InSlot slot = in_slot(*rows);

  EXPECT_TRUE((*rows_in_slot(slot.messages, slot.buffer()))->Equals(*rows));
}

TEST(SlotRows, AreRefusedWhereTheyLeaveTheSlot) {
  const InSlot slot = in_slot(*rows_of_all_kinds());
  for (const auto& [offset, bytes] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {0, 1u << 30}, {1u << 30, 64}, {~std::uint64_t{63}, 128}, {8, 64}, {64, 8}}) {
    auto messages = slot.messages;
    messages.back().offset = offset;
    messages.back().bytes = bytes;
    EXPECT_EQ(rows_in_slot(messages, slot.buffer()).error().code, Errc::Corrupt) << offset;
  }
  EXPECT_EQ(rows_in_slot({}, slot.buffer()).error().code, Errc::Corrupt);
  EXPECT_EQ(rows_in_slot({slot.messages.front()}, slot.buffer()).error().code, Errc::Corrupt);
}

TEST(SlotRows, AreRefusedWhereOffsetsOfTextsLeaveTheSlot) {
  const auto rows = must(numbered_rows(0, 5)->CombineChunksToBatch());
  const InSlot slot = in_slot(*rows);
  const auto read = *rows_in_slot(slot.messages, slot.buffer());
  const auto& offsets = read->GetColumnByName("name")->data()->buffers[1];
  const std::int32_t far = 1 << 30;
  std::memcpy(slot.memory->data() + (offsets->data() - slot.memory->data()) + 8, &far, 4);

  EXPECT_EQ(rows_in_slot(slot.messages, slot.buffer()).error().code, Errc::Corrupt);
}

TEST(SlotRows, ThatClaimToBeCompressedGetNoMemory) {
  if (!arrow::util::Codec::IsAvailable(arrow::Compression::ZSTD)) GTEST_SKIP() << "no zstd";
  arrow::ipc::IpcWriteOptions options;
  options.codec = must(arrow::util::Codec::Create(arrow::Compression::ZSTD));
  options.alignment = 64;
  const auto rows = must(numbered_rows(0, 100'000)->CombineChunksToBatch());
  arrow::ipc::IpcPayload schema, body;
  must(arrow::ipc::GetSchemaPayload(*rows->schema(), options,
                                    arrow::ipc::DictionaryFieldMapper(*rows->schema()), &schema));
  must(arrow::ipc::GetRecordBatchPayload(*rows, options, &body));
  const auto memory = *SlotMemory::make(body.body_length + 64);
  std::int64_t at = 0;
  for (const auto& buffer : body.body_buffers) {
    if (!buffer || buffer->size() == 0) continue;
    std::memcpy(memory->data() + at, buffer->data(), static_cast<std::size_t>(buffer->size()));
    at += (buffer->size() + 7) / 8 * 8;
  }

  const auto read =
      rows_in_slot({{schema.metadata->ToString(), 0, 0},
                    {body.metadata->ToString(), 0, static_cast<std::uint64_t>(body.body_length)}},
                   std::make_shared<arrow::Buffer>(memory->data(), memory->bytes()));

  EXPECT_EQ(read.error().code, Errc::Corrupt);
}

TEST(SlotRows, WithAnyMetadataLieInTheSlotOrAreRefused) {
  const InSlot slot = in_slot(*rows_of_all_kinds());
  std::mt19937_64 random(3);
  int refused = 0;
  for (int round = 0; round < 5000; ++round) {
    auto messages = slot.messages;
    std::string& metadata = messages[random() % messages.size()].metadata;
    for (std::uint64_t change = 1 + random() % 4; change > 0; --change)
      metadata[random() % metadata.size()] = static_cast<char>(random());
    const auto read = rows_in_slot(messages, slot.buffer());
    if (read.has_error()) {
      ++refused;
      continue;
    }
    for (const auto& column : (*read)->columns()) (void)column->ToString();  // reads all of it
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace train::data
