// What a rank and an ingest worker say to each other. A connection is for one dataset and one rank.
//
// The rank opens a pass, and asks for parts of its batches: the rows of a step at some addresses
// (lib/data/plan/lane_plan.h). The ingest worker answers each ask once, with the rows or with an
// error, those of earlier steps first. Rows lie in a slot, which is memory of the ingest worker
// that the rank maps (slots.h), until the rank releases it. What an ask means does not depend on
// what was asked before, or of whom.
//
// A frame is a length (32 bits, of what follows), a type (8 bits), and the fields below in their
// order: numbers little-endian, texts and lists with their length (32 bits) before them. A frame
// that is longer than kFrameBytesMax, is cut short or has more than its fields ends the connection.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/plan/lane_plan.h"

namespace train::data {

inline constexpr std::size_t kServeFrameBytesMax = 4u << 20;
inline constexpr std::uint32_t kServeVersion = 1;
inline constexpr std::size_t kSlotsMax = 96;  // of a connection
/// Asks that wait for their answer on one connection.
inline constexpr std::size_t kAsksMax = 4096;

/// Ping and Pong have no fields, and are only for Flight (lib/data/flight).
enum class ServeType : std::uint8_t { OpenPass = 1, Ask, Release, Answer, Failed, Ping, Pong };

/// A pass of a rank: what the rows of its steps are. It replaces an earlier one, and its asks.
struct OpenPass {
  static constexpr ServeType kType = ServeType::OpenPass;
  std::uint32_t version = kServeVersion;
  std::string dataset = {};
  std::string layout = {};  // digest of the rank's units: those of the ingest worker must be equal
  OrderSpec order = {};
  std::uint64_t epoch = 0;
  std::vector<std::int64_t> batch_sizes = {};  // by rank
  std::int32_t rank = 0;
  std::int64_t rows_consumed = 0;  // at the first step
  bool drop_last = false;
  std::string preprocessors = {};  // what was fitted, as checkpoints keep it; empty: none
  /// The bytes of answers that may wait in the rank, at one time.
  std::int64_t credit_bytes = 0;
  bool operator==(const OpenPass&) const = default;
};

struct Ask {
  static constexpr ServeType kType = ServeType::Ask;
  std::uint64_t sequence = 0;  // grows
  std::int64_t step = 0;       // of the pass
  AddressSet addresses = {};
  bool operator==(const Ask&) const = default;
};

/// The rank needs a slot no longer.
struct Release {
  static constexpr ServeType kType = ServeType::Release;
  std::uint32_t slot = 0;
  bool operator==(const Release&) const = default;
};

/// One message of Arrow's IPC format: its metadata, and where its body lies in the slot.
struct SlotMessage {
  std::string metadata = {};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  bool operator==(const SlotMessage&) const = default;
};

/// A row that cannot be decoded and is left out.
struct RowError {
  std::int64_t row = 0;  // of the part, as it was asked for
  Error why = {};
  bool operator==(const RowError&) const = default;
};

/// What an operator of the dataset has done since the previous answer (lib/progress).
struct OperatorShare {
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  std::int64_t busy_ns = 0;
  bool operator==(const OperatorShare&) const = default;
};

struct Answer {
  static constexpr ServeType kType = ServeType::Answer;
  std::uint64_t sequence = 0;
  std::uint32_t slot = 0;  // below kSlotsMax
  bool new_slot = false;   // its descriptor comes with this frame, in place of an earlier one
  std::vector<SlotMessage> messages = {};  // schema, dictionaries, record batch
  std::vector<RowError> bad = {};          // by their rows
  /// How many rows flat maps have made of each that was asked for; empty: one of each.
  std::vector<std::uint32_t> counts = {};
  /// Which of these rows are left out, growing. In their place, at the end, are repeats of others.
  std::vector<std::int64_t> lost = {};
  std::vector<OperatorShare> operators = {};
  bool operator==(const Answer&) const = default;
};

/// An ask cannot be answered; with the sequence 0, none of this pass can.
struct Failed {
  static constexpr ServeType kType = ServeType::Failed;
  std::uint64_t sequence = 0;
  Error why = {};
  bool operator==(const Failed&) const = default;
};

/// Return the frame.
std::string frame_of(const OpenPass& message);
std::string frame_of(const Ask& message);
std::string frame_of(const Release& message);
std::string frame_of(const Answer& message);
std::string frame_of(const Failed& message);
std::string frame_of(ServeType without_fields);

/// Read the fields behind the type. Protocol if they are none of this message.
Result<OpenPass> read_open_pass(std::string_view fields);
Result<Ask> read_ask(std::string_view fields);
Result<Release> read_release(std::string_view fields);
Result<Answer> read_answer(std::string_view fields);
Result<Failed> read_failed(std::string_view fields);

struct ServeFrame {
  ServeType type = {};
  std::string fields = {};
};

/// Return the frame that these bytes are. Protocol if they are not exactly one.
Result<ServeFrame> whole_frame(std::string_view bytes);

/// Cuts a stream of bytes into frames.
class ServeFrames {
 public:
  void feed(std::string_view bytes);
  /// Return the next whole frame; false if it needs more bytes. Protocol if it is too long.
  Result<bool> next(ServeFrame& frame);

 private:
  std::string buffer_;
  std::size_t begin_ = 0;
};

}  // namespace train::data
