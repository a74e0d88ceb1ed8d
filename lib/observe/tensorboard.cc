#include "lib/observe/tensorboard.h"

#include <dirent.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cmath>

#include "lib/base/utf8.h"
#include "lib/observe/crc32c.h"

namespace train {
namespace {

constexpr std::size_t kHeaderBytes = 12;  // length and its checksum
constexpr std::size_t kFooterBytes = 4;   // the payload's checksum

template <class T>
void append_fixed(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

template <class T>
T read_fixed(std::string_view data) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= static_cast<T>(T{static_cast<std::uint8_t>(data[i])} << (8 * i));
  return value;
}

void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
  out += static_cast<char>(value);
}

// Protobuf's wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
void append_tag(std::string& out, int field, int wire_type) {
  append_varint(out, static_cast<std::uint64_t>(field << 3 | wire_type));
}

// Append a field of a message or of bytes. Readers refuse a text that is not UTF-8.
void append_bytes(std::string& out, int field, std::string_view bytes) {
  append_tag(out, field, 2);
  append_varint(out, bytes.size());
  out += bytes;
}

// Return the checksum in the masked form of TFRecord: rotated, plus a constant. A plain CRC is weak
// for data that itself contains CRCs.
std::uint32_t masked_crc(std::string_view data) {
  const std::uint32_t crc = crc32c(data);
  return std::rotr(crc, 15) + 0xA282EAD8u;
}

void append_record(std::string& out, std::string_view payload) {
  std::string length;
  append_fixed<std::uint64_t>(length, payload.size());
  out += length;
  append_fixed(out, masked_crc(length));
  out += payload;
  append_fixed(out, masked_crc(payload));
}

// Event{5: Summary{1: Value{1: tag, 2: simple_value}}}
std::string scalar_field(std::string_view tag, float value) {
  std::string inner, summary, field;
  append_bytes(inner, 1, utf8_text(tag));
  append_tag(inner, 2, 5);
  append_fixed(inner, std::bit_cast<std::uint32_t>(value));
  append_bytes(summary, 1, inner);
  append_bytes(field, 5, summary);
  return field;
}

// Event{5: Summary{1: Value{1: tag, 9: SummaryMetadata{1: PluginData{1: "text"}}, 8: Tensor{1:
// DT_STRING, 8: text}}}}
std::string text_field(std::string_view tag, std::string_view text) {
  std::string plugin, metadata, tensor, inner, summary, field;
  append_bytes(plugin, 1, "text");
  append_bytes(metadata, 1, plugin);
  append_tag(tensor, 1, 0);
  append_varint(tensor, 7);
  append_bytes(tensor, 8, utf8_text(text));
  append_bytes(inner, 1, utf8_text(tag));
  append_bytes(inner, 9, metadata);
  append_bytes(inner, 8, tensor);
  append_bytes(summary, 1, inner);
  append_bytes(field, 5, summary);
  return field;
}

// Event{5: Summary{1: Value{8: Tensor{1: DT_DOUBLE, 2: shape [buckets, 3], 4: rows of left edge,
// right edge, count}, 1: tag, 9: SummaryMetadata{1: PluginData{1: "histograms"}}}}}. The metadata
// is last, so that no number at the end looks like a scalar to read_front().
std::string histogram_field(std::string_view tag, const Histogram& histogram) {
  const std::size_t buckets = histogram.counts.size();
  std::string shape, rows, tensor, plugin, metadata, inner, summary, field;
  for (const std::uint64_t size : {std::uint64_t{buckets}, std::uint64_t{3}}) {
    std::string dimension;
    append_tag(dimension, 1, 0);
    append_varint(dimension, size);
    append_bytes(shape, 2, dimension);
  }
  // Equal values are shown around their place, as TensorBoard does.
  const double margin = histogram.min == histogram.max ? 0.5 : 0;
  const double first = histogram.min - margin, last = histogram.max + margin;
  const auto edge = [&](std::size_t i) {
    const double part = static_cast<double>(i) / static_cast<double>(buckets);
    return i == buckets ? last : first * (1 - part) + last * part;
  };
  for (std::size_t i = 0; i < buckets; ++i)
    for (const double number : {edge(i), edge(i + 1), static_cast<double>(histogram.counts[i])})
      append_fixed(rows, std::bit_cast<std::uint64_t>(number));
  append_tag(tensor, 1, 0);
  append_varint(tensor, 2);
  append_bytes(tensor, 2, shape);
  append_bytes(tensor, 4, rows);
  append_bytes(plugin, 1, "histograms");
  append_bytes(metadata, 1, plugin);
  append_bytes(inner, 8, tensor);
  append_bytes(inner, 1, utf8_text(tag));
  append_bytes(inner, 9, metadata);
  append_bytes(summary, 1, inner);
  append_bytes(field, 5, summary);
  return field;
}

/// Return a google.protobuf.Value: {2: number, 3: string, 4: bool}.
std::string protobuf_value(const MetricValue& value) {
  std::string field;
  if (const auto* text = std::get_if<std::string>(&value)) {
    append_bytes(field, 3, utf8_text(*text));
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    append_tag(field, 4, 0);
    append_varint(field, *flag ? 1 : 0);
  } else {
    const auto* integer = std::get_if<std::int64_t>(&value);
    const double number =
        integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value);
    append_tag(field, 2, 1);
    append_fixed(field, std::bit_cast<std::uint64_t>(number));
  }
  return field;
}

// Event{5: Summary{1: Value{1: tag, 9: SummaryMetadata{1: PluginData{1: "hparams", 2: content}}}}},
// where the content is HParamsPluginData{3: SessionStartInfo{1: {1: name, 2: value}, 5: seconds}}
// (tensorboard/plugins/hparams/plugin_data.proto).
std::string hparams_field(const Metrics& hparams, std::int64_t wall_us) {
  std::string start, content, plugin, metadata, inner, summary, field;
  for (const auto& [name, value] : hparams) {
    std::string entry;
    append_bytes(entry, 1, utf8_text(name));
    append_bytes(entry, 2, protobuf_value(value));
    append_bytes(start, 1, entry);
  }
  append_tag(start, 5, 1);
  append_fixed(start, std::bit_cast<std::uint64_t>(static_cast<double>(wall_us) / 1e6));
  append_bytes(content, 3, start);
  append_bytes(plugin, 1, "hparams");
  append_bytes(plugin, 2, content);
  append_bytes(metadata, 1, plugin);
  append_bytes(inner, 1, "_hparams_/session_start_info");
  append_bytes(inner, 9, metadata);
  append_bytes(summary, 1, inner);
  append_bytes(field, 5, summary);
  return field;
}

std::optional<double> number_of(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? 1.0 : 0.0;
  return std::nullopt;
}

std::optional<std::int64_t> step_metric(const Metrics& metrics) {
  for (const std::string_view wanted : {"step", "epoch"}) {
    for (const auto& [name, value] : metrics) {
      if (name != wanted) continue;
      const auto number = number_of(value);
      // The comparison is false for NaN.
      if (number && std::abs(*number) < 9e18) return static_cast<std::int64_t>(*number);
    }
  }
  return std::nullopt;
}

struct EventFront {
  std::int64_t wall_us = 0;
  std::int64_t step = 0;
  // It ends with a simple_value, like those of scalar_field(); other events have the launcher's
  // time.
  bool scalar = false;
};

// Read the front of a payload. Only for our own files: append_event() writes wall_time (9 bytes),
// then the step, if any.
EventFront read_front(std::string_view payload) {
  EventFront front;
  if (payload.size() < 14 || payload[0] != 0x09) return front;
  front.scalar = payload[payload.size() - 5] == 0x15;
  front.wall_us =
      std::llround(std::bit_cast<double>(read_fixed<std::uint64_t>(payload.substr(1))) * 1e6);
  payload.remove_prefix(9);
  if (payload.empty() || payload[0] != 0x10) return front;
  std::uint64_t step = 0;
  for (std::size_t i = 1, shift = 0; i < payload.size() && shift < 64; ++i, shift += 7) {
    step |= std::uint64_t{static_cast<std::uint8_t>(payload[i]) & 0x7Fu} << shift;
    if ((static_cast<std::uint8_t>(payload[i]) & 0x80) == 0) break;
  }
  front.step = static_cast<std::int64_t>(step);
  return front;
}

Result<std::string> newest_event_file(const std::string& folder) {
  DIR* listing = ::opendir(folder.c_str());
  if (listing == nullptr) return system_error(errno, "listing " + folder);
  std::string newest;
  while (const dirent* entry = ::readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.starts_with("events.out.tfevents.") && name.ends_with(".trainrun"))
      newest = std::max(newest, name);
  }
  ::closedir(listing);
  return newest;
}

}  // namespace

Result<TensorboardFile> TensorboardFile::open(const Options& options) {
  if (::mkdir(options.folder.c_str(), 0777) != 0 && errno != EEXIST) {
    return system_error(errno, "making " + options.folder);
  }
  TRY(std::string name, newest_event_file(options.folder));
  TensorboardFile events;
  events.options_ = options;
  events.was_there_ = !name.empty();
  if (name.empty()) {
    name = fmt::format("events.out.tfevents.{:010}.{}.trainrun", options.wall_us / 1'000'000,
                       options.hostname);
  }
  TRY(events.file_, AppendFile::open(options.folder + "/" + name));
  TRY_VOID(events.recover());
  if (!events.was_there_) {
    std::string version;
    append_bytes(version, 3, "brain.Event:2");
    events.append_event(options.wall_us, 0, version);
  }
  return events;
}

Result<Unit> TensorboardFile::recover() {
  TRY(const std::string content, read_file_or_empty(file_.path()));
  std::string_view rest = content;
  while (rest.size() >= kHeaderBytes + kFooterBytes) {
    const auto length = read_fixed<std::uint64_t>(rest);
    if (masked_crc(rest.substr(0, 8)) != read_fixed<std::uint32_t>(rest.substr(8))) break;
    if (length > rest.size() - kHeaderBytes - kFooterBytes) break;
    const std::string_view payload = rest.substr(kHeaderBytes, length);
    if (masked_crc(payload) != read_fixed<std::uint32_t>(rest.substr(kHeaderBytes + length))) break;
    const EventFront front = read_front(payload);
    if (front.scalar) {
      last_wall_us_ = front.wall_us;
      last_step_ = front.step;
    }
    rest.remove_prefix(kHeaderBytes + length + kFooterBytes);
  }
  const std::size_t whole = content.size() - rest.size();
  if (whole == 0) was_there_ = false;  // new, or no whole record reached the disk
  catching_up_ = options_.adopted.has_value();
  attempt_ = options_.adopted;
  if (rest.empty()) return Unit{};
  return file_.truncate(whole);
}

/// Continue in the newest file that the folder has now, or begin one.
Result<Unit> TensorboardFile::reopen(std::int64_t wall_us) {
  options_.wall_us = wall_us;  // TensorBoard takes a file of the old name for the old file
  TRY(TensorboardFile there, open(options_));
  file_ = std::move(there.file_);
  return Unit{};
}

Result<Unit> TensorboardFile::on_reports(std::span<const ReportRecord> reports) {
  if (!file_.is_at_path() && !reports.empty()) TRY_VOID(reopen(reports.front().wall_us));
  if (file_.buffer().size() >= kBufferBytesMax) TRY_VOID(file_.flush());
  for (const ReportRecord& report : reports) {
    if (report.rank != 0) continue;
    catching_up_ = catching_up_ && report.attempt == attempt_ && report.wall_us <= last_wall_us_;
    if (catching_up_) {
      last_report_seq_ = report.report_seq;
      continue;
    }
    if (attempt_ &&
        std::pair(report.attempt, report.report_seq) <= std::pair(*attempt_, last_report_seq_))
      continue;
    const std::int64_t step = step_metric(report.metrics).value_or(last_step_ + 1);
    if (attempt_ != report.attempt) begin_attempt(report, step);
    last_report_seq_ = report.report_seq;
    last_step_ = step;
    for (const auto& [name, value] : report.metrics) {
      if (const auto* text = std::get_if<std::string>(&value))
        append_event(report.wall_us, step, text_field(name, *text));
    }
    for (const auto& [name, histogram] : report.histograms)
      append_histogram(report, step, name, histogram);
    for (const auto& [name, value] : report.metrics) {  // last: recover() looks for scalars
      const auto number = number_of(value);
      if (!number) continue;
      append_event(report.wall_us, step, scalar_field(name, static_cast<float>(*number)));
    }
  }
  return Unit{};
}

void TensorboardFile::append_histogram(const ReportRecord& report, std::int64_t step,
                                       const std::string& name, const Histogram& histogram) {
  append_event(report.wall_us, step, histogram_field(name, histogram));
  const auto count = [&](const std::string& tag, std::uint64_t values) {
    if (values == 0 && !not_finite_.contains(tag)) return;
    not_finite_.insert(tag);
    append_event(report.wall_us, step, scalar_field(tag, static_cast<float>(values)));
  };
  count(name + "/nan", histogram.nans);
  count(name + "/inf", histogram.infinities);
}

void TensorboardFile::begin_attempt(const ReportRecord& report, std::int64_t step) {
  attempt_ = report.attempt;
  if (step > last_step_) return;
  std::string session, field;
  append_tag(session, 1, 0);
  append_varint(session, 1);  // SessionLog.START
  append_bytes(field, 7, session);
  append_event(report.wall_us, step, field);
}

void TensorboardFile::write_text(std::string_view tag, std::string_view text,
                                 std::int64_t wall_us) {
  if (!was_there_) append_event(wall_us, 0, text_field(tag, text));
}

void TensorboardFile::write_hparams(const Metrics& hparams, std::int64_t wall_us) {
  if (!was_there_ && !hparams.empty()) append_event(wall_us, 0, hparams_field(hparams, wall_us));
}

void TensorboardFile::append_event(std::int64_t wall_us, std::int64_t step,
                                   std::string_view field) {
  std::string payload;
  append_tag(payload, 1, 1);
  append_fixed(payload, std::bit_cast<std::uint64_t>(static_cast<double>(wall_us) / 1e6));
  if (step != 0) {
    append_tag(payload, 2, 0);
    append_varint(payload, static_cast<std::uint64_t>(step));
  }
  payload += field;
  append_record(file_.buffer(), payload);
}

}  // namespace train
