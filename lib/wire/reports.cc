#include "lib/wire/reports.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <msgpack.hpp>

#include "lib/base/check.h"
#include "lib/wire/attempt_messages.h"

namespace train {
namespace {

struct StringSink {  // lets msgpack::packer write straight into our string
  std::string& out;
  void write(const char* data, std::size_t size) { out.append(data, size); }
};

// Append a MessagePack float 64. The packer's own pack_double() writes 2.0 as an integer, which
// would change the metric's type.
void append_double(double value, std::string& out) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  std::array<char, 9> bytes{'\xcb'};
  for (std::size_t i = 1; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bits >> (64 - 8 * i));
  out.append(bytes.data(), bytes.size());
}

Result<MetricValue> to_metric(const msgpack::object& object) {
  switch (object.type) {
    case msgpack::type::POSITIVE_INTEGER:
    case msgpack::type::NEGATIVE_INTEGER:
      return MetricValue{object.as<std::int64_t>()};
    case msgpack::type::FLOAT32:
    case msgpack::type::FLOAT64:
      return MetricValue{object.as<double>()};
    case msgpack::type::BOOLEAN:
      return MetricValue{object.as<bool>()};
    case msgpack::type::STR:
      return MetricValue{object.as<std::string>()};
    default:
      return Error{Errc::Protocol, "a metric is neither a number, a bool nor a string"};
  }
}

constexpr char kArrayOfThree = '\x93', kArrayOfFour = '\x94';

Result<Histograms> to_histograms(const msgpack::object& object) {
  const Error wrong{Errc::Protocol, "the histograms of a report are not as they should be"};
  if (object.type != msgpack::type::MAP || object.via.map.size > kReportHistogramsMax) return wrong;
  Histograms histograms;
  for (std::uint32_t i = 0; i < object.via.map.size; ++i) {
    const msgpack::object_kv& entry = object.via.map.ptr[i];
    if (entry.val.type != msgpack::type::ARRAY || entry.val.via.array.size != 5) return wrong;
    const msgpack::object* fields = entry.val.via.array.ptr;
    Histogram histogram;
    histogram.min = fields[0].as<double>();
    histogram.max = fields[1].as<double>();
    histogram.nans = fields[2].as<std::uint64_t>();
    histogram.infinities = fields[3].as<std::uint64_t>();
    fields[4].convert(histogram.counts);
    const bool in_order = histogram.min <= histogram.max;  // and not NaN
    if (!in_order || histogram.counts.empty() || histogram.counts.size() > kHistogramBinsMax)
      return wrong;
    histograms.emplace_back(entry.key.as<std::string>(), std::move(histogram));
  }
  return histograms;
}

Result<ReportRecord> to_record(const msgpack::object& object) {
  ReportRecord record;
  if (object.type != msgpack::type::ARRAY || object.via.array.size < 3) {
    return Error{Errc::Protocol, "a report is not an array of three or more"};
  }
  const msgpack::object* fields = object.via.array.ptr;
  record.wall_us = fields[0].as<std::int64_t>();
  record.has_checkpoint = fields[1].as<bool>();
  if (fields[2].type != msgpack::type::MAP)
    return Error{Errc::Protocol, "the metrics of a report are not a map"};
  record.metrics.reserve(fields[2].via.map.size);
  for (std::uint32_t i = 0; i < fields[2].via.map.size; ++i) {
    const msgpack::object_kv& entry = fields[2].via.map.ptr[i];
    TRY(auto value, to_metric(entry.val));
    record.metrics.emplace_back(entry.key.as<std::string>(), std::move(value));
  }
  if (object.via.array.size > 3) {
    TRY(record.histograms, to_histograms(fields[3]));
  }
  return record;
}

}  // namespace

void append_report(std::int64_t wall_us, bool has_checkpoint, const Metrics& metrics,
                   std::string& data) {
  StringSink sink{data};
  msgpack::packer<StringSink> packer(sink);
  packer.pack_array(3);
  packer.pack(wall_us);
  packer.pack(has_checkpoint);
  packer.pack_map(static_cast<std::uint32_t>(metrics.size()));
  for (const auto& [name, value] : metrics) {
    packer.pack(name);
    if (const auto* number = std::get_if<double>(&value))
      append_double(*number, data);
    else
      std::visit([&](const auto& v) { packer.pack(v); }, value);
  }
}

void append_histogram(std::string_view name, const Histogram& histogram, std::string& packed) {
  StringSink sink{packed};
  msgpack::packer<StringSink> packer(sink);
  packer.pack(name);
  packer.pack_array(5);
  append_double(histogram.min, packed);
  append_double(histogram.max, packed);
  packer.pack(histogram.nans);
  packer.pack(histogram.infinities);
  packer.pack(histogram.counts);
}

void add_histograms(std::size_t count, std::string_view packed, std::string& report) {
  TRAIN_CHECK(!report.empty() && report.front() == kArrayOfThree,
              "not a report without histograms");
  report.front() = kArrayOfFour;
  StringSink sink{report};
  msgpack::packer<StringSink>(sink).pack_map(static_cast<std::uint32_t>(count));
  report += packed;
}

Result<std::vector<ReportRecord>> read_reports(const ReportBatch& batch, std::uint32_t attempt) {
  std::vector<ReportRecord> records;
  std::size_t offset = 0;
  const msgpack::unpack_limit limit(kReportMetricsMax, kReportMetricsMax, kReportBytesMax, 0, 0, 4);
  msgpack::zone zone;
  try {
    while (offset < batch.data.size()) {
      zone.clear();
      const msgpack::object object = msgpack::unpack(zone, batch.data.data(), batch.data.size(),
                                                     offset, nullptr, nullptr, limit);
      TRY(auto record, to_record(object));
      record.rank = batch.rank;
      record.attempt = attempt;
      record.report_seq = batch.first_report_seq + records.size();
      records.push_back(std::move(record));
    }
  } catch (const std::exception& e) {  // msgpack::unpack_error, type_error
    return Error{Errc::Protocol,
                 fmt::format("report {} of rank {} cannot be read: {}",
                             batch.first_report_seq + records.size(), batch.rank, e.what())};
  }
  if (records.size() != batch.count) {
    return Error{Errc::Protocol, fmt::format("a batch of rank {} announces {} reports but holds {}",
                                             batch.rank, batch.count, records.size())};
  }
  return records;
}

}  // namespace train
