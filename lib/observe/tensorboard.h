// This file writes TensorBoard event files (tb/events.out.tfevents.*): rank 0's numbers as scalars,
// its texts and the spec as text, its histograms, and hyperparameters.
//
// The writer is our own, since there is no package of one in C++: Debian has none, PyPI's
// `tensorboard` and `tensorboardX` are Python, and TensorFlow's own writer is available only with
// all of TensorFlow. The format is small: records framed (little-endian, as in TFRecord) as
//   length (u64), masked CRC32C of it, payload, masked CRC32C of the payload
// whose payload is a protobuf `Event` with few fields: wall_time, step, and a file version, a
// value, or a session start.
//
// TensorBoard's histograms have no place for values that are not finite: they are counted in the
// scalars "NAME/nan" and "NAME/inf", once there have been some.
//
// A scalar's step is the metric `step`, else `epoch`, else a count of rank 0's reports. When a new
// attempt begins at an earlier step, a session start is written there, so that TensorBoard forgets
// the points that the new attempt repeats.
//
// If someone removes the file, the next points go to a new one.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "lib/observe/append_file.h"
#include "lib/observe/report_sink.h"

namespace train {

class TensorboardFile final : public ReportSink {
 public:
  static constexpr std::size_t kBufferBytesMax = 4u << 20;

  struct Options {
    std::string folder;        // created if missing
    std::string hostname;      // part of the file's name
    std::int64_t wall_us = 0;  // now; for the file's name and its first record
    /// An earlier launcher's attempt that may go on, if rank 0 has reported in it.
    std::optional<std::uint32_t> adopted = {};
  };
  /// Continue the newest event file of the folder (after a restart of the launcher), or begin a new
  /// one. Cuts off a torn last record.
  static Result<TensorboardFile> open(const Options& options);

  Result<Unit> on_reports(std::span<const ReportRecord> reports) override;
  Result<Unit> flush() override { return file_.flush(); }
  Result<Unit> sync() override { return file_.sync(); }
  bool keeps_histograms() const override { return true; }

  /// Show `text` (Markdown) in TensorBoard's Text tab, once per run: does nothing if the file
  /// existed before.
  void write_text(std::string_view tag, std::string_view text, std::int64_t wall_us);
  /// Show these in TensorBoard's HParams tab, also once per run.
  void write_hparams(const Metrics& hparams, std::int64_t wall_us);
  const std::string& path() const { return file_.path(); }

 private:
  Result<Unit> recover();
  Result<Unit> reopen(std::int64_t wall_us);
  void append_event(std::int64_t wall_us, std::int64_t step, std::string_view field);
  void append_histogram(const ReportRecord& report, std::int64_t step, const std::string& name,
                        const Histogram& histogram);
  void begin_attempt(const ReportRecord& report, std::int64_t step);

  Options options_;
  AppendFile file_;
  bool was_there_ = false;
  std::int64_t last_wall_us_ = 0;  // of the last scalar in the file when it was opened
  bool catching_up_ = false;  // skip reports of attempt_ up to last_wall_us_: the file has them
  std::optional<std::uint32_t> attempt_;
  std::uint64_t last_report_seq_ = 0;
  std::int64_t last_step_ = -1;
  std::set<std::string> not_finite_;  // the scalars that count values that are not finite
};

}  // namespace train
