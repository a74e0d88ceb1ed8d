#include "lib/data/serve/messages.h"

#include <fmt/format.h>

#include "lib/data/serve/packing.h"

namespace train::data {
namespace {

constexpr std::size_t kLengthBytes = 4;
/// Of a text about an error: many of them must fit into a frame.
constexpr std::size_t kErrorTextBytesMax = 16u << 10;

std::string framed(ServeType type, Packer fields) {
  std::string payload = fields.take();
  Packer frame;
  frame.number(static_cast<std::uint32_t>(payload.size() + 1))
      .number(static_cast<std::uint8_t>(type));
  return frame.take() + payload;
}

template <class T>
Result<T> checked(const Unpacker& in, T message, const char* name) {
  if (in.done()) return message;
  return Error{Errc::Protocol,
               fmt::format("a frame '{}' is cut short or has too many bytes", name)};
}

void pack(Packer& out, const Error& error) {
  out.text(to_string(error.code))
      .text(std::string_view(error.message).substr(0, kErrorTextBytesMax))
      .text(std::string_view(error.hint).substr(0, kErrorTextBytesMax));
}

void unpack(Unpacker& in, Error& error) {
  std::string code;
  in.text(code).text(error.message).text(error.hint);
  error.code = errc_of(code);
}

void pack(Packer& out, const AddressSet& set) {
  std::string bits((set.size() + 7) / 8, '\0');
  for (std::size_t at = 0; at < set.size(); ++at)
    if (set[at]) bits[at / 8] = static_cast<char>(bits[at / 8] | (1 << (at % 8)));
  out.number(static_cast<std::uint32_t>(set.size())).text(bits);
}

void unpack(Unpacker& in, AddressSet& set) {
  std::uint32_t size = 0;
  std::string bits;
  in.number(size).text(bits);
  if (bits.size() != (std::size_t{size} + 7) / 8) return in.fail();
  set.resize(size);
  for (std::size_t at = 0; at < set.size(); ++at) set[at] = (bits[at / 8] >> (at % 8) & 1) != 0;
}

void pack(Packer& out, const OrderSpec& order) {
  out.number(static_cast<std::uint8_t>(order.shuffle))
      .number(order.seed)
      .number(order.lanes)
      .number(order.block_rows);
}

void unpack(Unpacker& in, OrderSpec& order) {
  std::uint8_t shuffle = 0;
  in.number(shuffle).number(order.seed).number(order.lanes).number(order.block_rows);
  if (shuffle > static_cast<std::uint8_t>(Shuffle::Rows) || order.lanes < 1 ||
      order.lanes > kLanesMax || order.block_rows < 0)
    return in.fail();
  order.shuffle = static_cast<Shuffle>(shuffle);
}

}  // namespace

std::string frame_of(const OpenPass& message) {
  Packer out;
  out.number(message.version).text(message.dataset).text(message.layout);
  pack(out, message.order);
  out.number(message.epoch).number(static_cast<std::uint32_t>(message.batch_sizes.size()));
  for (const std::int64_t size : message.batch_sizes) out.number(size);
  out.number(message.rank)
      .number(message.rows_consumed)
      .number(static_cast<std::uint8_t>(message.drop_last))
      .text(message.preprocessors)
      .number(message.credit_bytes);
  return framed(OpenPass::kType, std::move(out));
}

Result<OpenPass> read_open_pass(std::string_view fields) {
  Unpacker in(fields);
  OpenPass message;
  in.number(message.version);
  if (message.version != kServeVersion)
    return Error{Errc::Protocol, fmt::format("the peer speaks version {} of the hand-over, not {}",
                                             message.version, kServeVersion)};
  in.text(message.dataset).text(message.layout);
  unpack(in, message.order);
  in.number(message.epoch);
  message.batch_sizes.resize(in.count(sizeof(std::int64_t)));
  for (std::int64_t& size : message.batch_sizes) in.number(size);
  std::uint8_t drop_last = 0;
  in.number(message.rank)
      .number(message.rows_consumed)
      .number(drop_last)
      .text(message.preprocessors)
      .number(message.credit_bytes);
  message.drop_last = drop_last != 0;
  if (message.rank < 0 || std::cmp_greater_equal(message.rank, message.batch_sizes.size()) ||
      message.credit_bytes < 0)
    in.fail();
  return checked(in, std::move(message), "open pass");
}

std::string frame_of(const Ask& message) {
  Packer out;
  out.number(message.sequence).number(message.step);
  pack(out, message.addresses);
  return framed(Ask::kType, std::move(out));
}

Result<Ask> read_ask(std::string_view fields) {
  Unpacker in(fields);
  Ask message;
  in.number(message.sequence).number(message.step);
  unpack(in, message.addresses);
  return checked(in, std::move(message), "ask");
}

std::string frame_of(const Release& message) {
  Packer out;
  out.number(message.slot);
  return framed(Release::kType, std::move(out));
}

Result<Release> read_release(std::string_view fields) {
  Unpacker in(fields);
  Release message;
  in.number(message.slot);
  return checked(in, message, "release");
}

std::string frame_of(const Answer& message) {
  Packer out;
  out.number(message.sequence)
      .number(message.slot)
      .number(static_cast<std::uint8_t>(message.new_slot))
      .number(static_cast<std::uint32_t>(message.messages.size()));
  for (const SlotMessage& one : message.messages)
    out.text(one.metadata).number(one.offset).number(one.bytes);
  out.number(static_cast<std::uint32_t>(message.bad.size()));
  for (const RowError& one : message.bad) {
    out.number(one.row);
    pack(out, one.why);
  }
  out.number(static_cast<std::uint32_t>(message.counts.size()));
  for (const std::uint32_t count : message.counts) out.number(count);
  out.number(static_cast<std::uint32_t>(message.lost.size()));
  for (const std::int64_t row : message.lost) out.number(row);
  out.number(static_cast<std::uint32_t>(message.operators.size()));
  for (const OperatorShare& one : message.operators)
    out.number(one.rows).number(one.bytes).number(one.busy_ns);
  return framed(Answer::kType, std::move(out));
}

Result<Answer> read_answer(std::string_view fields) {
  Unpacker in(fields);
  Answer message;
  std::uint8_t new_slot = 0;
  in.number(message.sequence).number(message.slot).number(new_slot);
  message.new_slot = new_slot != 0;
  message.messages.resize(in.count(20));
  for (SlotMessage& one : message.messages)
    in.text(one.metadata).number(one.offset).number(one.bytes);
  message.bad.resize(in.count(20));
  for (RowError& one : message.bad) {
    in.number(one.row);
    unpack(in, one.why);
  }
  message.counts.resize(in.count(4));
  for (std::uint32_t& count : message.counts) in.number(count);
  message.lost.resize(in.count(8));
  for (std::int64_t& row : message.lost) in.number(row);
  message.operators.resize(in.count(24));
  for (OperatorShare& one : message.operators)
    in.number(one.rows).number(one.bytes).number(one.busy_ns);
  if (message.slot >= kSlotsMax) in.fail();
  return checked(in, std::move(message), "answer");
}

std::string frame_of(const Failed& message) {
  Packer out;
  out.number(message.sequence);
  pack(out, message.why);
  return framed(Failed::kType, std::move(out));
}

Result<Failed> read_failed(std::string_view fields) {
  Unpacker in(fields);
  Failed message;
  in.number(message.sequence);
  unpack(in, message.why);
  return checked(in, std::move(message), "failed");
}

std::string frame_of(ServeType without_fields) { return framed(without_fields, Packer()); }

Result<ServeFrame> whole_frame(std::string_view bytes) {
  std::uint32_t length = 0;
  if (bytes.size() > kLengthBytes) Unpacker(bytes.substr(0, kLengthBytes)).number(length);
  if (length == 0 || length > kServeFrameBytesMax || bytes.size() != kLengthBytes + length)
    return Error{Errc::Protocol, fmt::format("{} bytes are not one frame", bytes.size())};
  return ServeFrame{static_cast<ServeType>(bytes[kLengthBytes]),
                    std::string(bytes.substr(kLengthBytes + 1))};
}

void ServeFrames::feed(std::string_view bytes) {
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_.append(bytes);
}

Result<bool> ServeFrames::next(ServeFrame& frame) {
  const std::string_view waiting = std::string_view(buffer_).substr(begin_);
  if (waiting.size() < kLengthBytes) return false;
  std::uint32_t length = 0;
  Unpacker(waiting.substr(0, kLengthBytes)).number(length);
  if (length == 0 || length > kServeFrameBytesMax)
    return Error{Errc::Protocol,
                 fmt::format("a frame of {} bytes, not 1 to {}", length, kServeFrameBytesMax)};
  if (waiting.size() - kLengthBytes < length) return false;
  frame.type = static_cast<ServeType>(waiting[kLengthBytes]);
  frame.fields.assign(waiting.substr(kLengthBytes + 1, length - 1));
  begin_ += kLengthBytes + length;
  return true;
}

}  // namespace train::data
