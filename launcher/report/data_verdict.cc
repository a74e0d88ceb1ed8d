#include "launcher/report/data_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lib/base/json_text.h"
#include "lib/samples/data_rows.h"

namespace train {
namespace {

constexpr double kBusyMin = 0.05;     // less is no bottleneck
constexpr double kJudgedTimeMin = 2;  // seconds of a loop: less says little

/// Return whether the operator prepares batches.
bool prepares(std::string_view operation) {
  constexpr std::array<std::string_view, 4> kNames{"decode", "filter", "gather", "batch"};
  return operation.starts_with("map ") ||
         std::find(kNames.begin(), kNames.end(), operation) != kNames.end();
}

std::string subject_of(const DataVerdict& verdict) {
  return verdict.dataset + "/" + verdict.operation;
}

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

}  // namespace

std::optional<DataVerdict> data_verdict(const SampleTable& data) {
  DataVerdict verdict;
  bool found = false;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    const auto row = parse_data_row(data.rows[i]);
    const double wait = data.number("input_wait", i);
    if (!row || !row->rank || row->operation != "loop" || !(wait >= kDataBoundMin)) continue;
    if (data.number("input_s", i) + data.number("busy_s", i) < kJudgedTimeMin) continue;
    if (found && wait <= verdict.share) continue;
    found = true;
    verdict = {
        .share = std::min(wait, 1.), .rank = *row->rank, .dataset = std::string(row->dataset)};
    const double rows = data.number("rows_per_s", i);
    verdict.rows_per_s = std::isfinite(rows) ? rows : 0;
  }
  if (!found) return std::nullopt;
  verdict.operation = data_bottlenecks(data, verdict.dataset)[verdict.rank];
  return verdict;
}

std::map<std::int32_t, std::string> data_bottlenecks(const SampleTable& data,
                                                     std::string_view dataset) {
  std::map<std::int32_t, double> most;
  std::map<std::int32_t, std::string> found;
  for (std::size_t i = 0; i < data.rows.size(); ++i) {
    const auto row = parse_data_row(data.rows[i]);
    if (!row || !row->rank || row->dataset != dataset || !prepares(row->operation)) continue;
    const double busy = data.number("busy", i);
    double& of_rank = most.try_emplace(*row->rank, kBusyMin).first->second;
    if (!(busy > of_rank)) continue;
    of_rank = busy;
    found[*row->rank] = row->operation;
  }
  return found;
}

void put_data_bound(JsonWriter& json, const std::optional<DataVerdict>& verdict) {
  json.key("data_bound");
  if (!verdict) {
    json.null();
    return;
  }
  json.object().member("ratio", verdict->share).member("rank", verdict->rank);
  json.member("dataset", verdict->dataset).text_or_null("operator", verdict->operation);
  json.member("rows_per_s", verdict->rows_per_s).member("text", data_verdict_text(*verdict)).end();
}

std::string rows_per_s_text(double rows_per_s) {
  const auto digits = [](double value) {
    return fmt::format("{:.{}f}", value, value < 9.95 ? 1 : 0);
  };
  if (rows_per_s >= 999.5e6) return digits(rows_per_s / 1e9) + " G rows/s";
  if (rows_per_s >= 999.5e3) return digits(rows_per_s / 1e6) + " M rows/s";
  if (rows_per_s >= 999.5) return digits(rows_per_s / 1e3) + " k rows/s";
  return digits(rows_per_s) + " rows/s";
}

std::string data_verdict_text(const DataVerdict& verdict) {
  std::string what = verdict.operation;
  if (verdict.dataset != "train") what += (what.empty() ? "dataset " : " of ") + verdict.dataset;
  return fmt::format("data-bound {}: {}{}{} on rank {}", percent(verdict.share), what,
                     what.empty() ? "" : ", ", rows_per_s_text(verdict.rows_per_s), verdict.rank);
}

std::optional<DataBoundWatch::Change> DataBoundWatch::judged(
    const std::optional<DataVerdict>& verdict, TimePoint now) {
  if (!verdict || verdict->share < kShareMin) {
    since_.reset();
    if (!free_since_) free_since_ = now;
    if (!said_ || now - *free_since_ < kLasts) return std::nullopt;
    said_ = false;
    return Change{false, "no longer data-bound"};
  }
  free_since_.reset();
  if (!since_ || of_ != subject_of(*verdict)) {
    since_ = now;
    of_ = subject_of(*verdict);
  }
  if (now - *since_ < kLasts || (said_ && said_of_ == of_) || lines_ == kLinesMax)
    return std::nullopt;
  ++lines_;
  said_ = true;
  said_of_ = of_;
  return Change{true, data_verdict_text(*verdict)};
}

}  // namespace train
