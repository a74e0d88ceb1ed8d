// What an ingest worker and a rank send each other. The first byte chooses a message, or, with
// metadata and a slot behind it, rows.
#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>

#include <cstdlib>

#include "lib/data/serve/join_parts.h"
#include "lib/data/serve/slot_rows.h"

namespace {

using namespace train::data;

/// An answer's fields, and behind them the slot: whatever is accepted can be read as a whole.
void check_rows(std::string_view bytes) {
  if (bytes.size() < 2) return;
  const std::size_t size =
      static_cast<unsigned char>(bytes[0]) << 8 | static_cast<unsigned char>(bytes[1]);
  bytes.remove_prefix(2);
  const auto answer = read_answer(bytes.substr(0, size));
  if (answer.has_error()) return;
  const std::string body(bytes.substr(std::min(size, bytes.size())));
  const auto rows = rows_in_slot(answer->messages, arrow::Buffer::FromString(body));
  if (rows.has_error()) return;
  for (const auto& column : (*rows)->columns()) static_cast<void>(column->ToString());
  static_cast<void>(check_part(
      {.rows = *rows, .bad = answer->bad, .lost = answer->lost, .counts = answer->counts},
      (*rows)->num_rows()));
}

/// A message that is read can be sent, and is the same then.
template <class Message>
void check(const train::Result<Message>& message,
           train::Result<Message> (*read)(std::string_view)) {
  if (message.has_error()) return;
  const std::string frame = frame_of(*message);
  ServeFrames frames;
  frames.feed(frame);
  ServeFrame again;
  const auto whole = frames.next(again);
  if (whole.has_error()) return;  // texts were cut, or it is too long
  if (!*whole || read(again.fields).has_error()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 7) {
    case 0:
      check(read_open_pass(bytes), read_open_pass);
      break;
    case 1:
      check(read_ask(bytes), read_ask);
      break;
    case 2:
      check(read_release(bytes), read_release);
      break;
    case 3:
      check(read_answer(bytes), read_answer);
      break;
    case 4:
      check(read_failed(bytes), read_failed);
      break;
    case 5: {
      ServeFrames frames;
      frames.feed(bytes);
      ServeFrame frame;
      while (true) {
        const auto next = frames.next(frame);
        if (next.has_error() || !*next) break;
      }
      const auto one = whole_frame(bytes);  // as the metadata of a message of Flight
      if (one.has_value() && one->fields.size() + 5 != bytes.size()) std::abort();
      break;
    }
    case 6:
      check_rows(bytes);
      break;
  }
  return 0;
}
