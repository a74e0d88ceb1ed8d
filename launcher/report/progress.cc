#include "launcher/report/progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr Duration kRedrawEvery = milliseconds(100);
// Redraw a live line even without news, for its elapsed time.
constexpr Duration kClockEvery = seconds(1);
constexpr Duration kJsonEvery = milliseconds(100);
constexpr Duration kWaitingAgainAfter = seconds(10);
constexpr Duration kRateWindow = seconds(10);
constexpr Duration kSampleEvery = milliseconds(250);
constexpr double kRateMin = 1 / (365.0 * 24 * 3600);  // one a year; a lower rate is not shown
constexpr std::size_t kMetricsShown = 5;
constexpr std::size_t kMetricNameColumnsMax = 32;

std::string short_value(const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value)) return fmt::format("{}", *integer);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:.4g}", *number);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  return cut_to_columns(terminal_safe(std::get<std::string>(value)), 24);
}

std::string plural(int count, std::string_view word) {
  return fmt::format("{} {}{}", count, word, count == 1 ? "" : "s");
}

std::string join(const std::vector<std::string>& parts) {
  std::string line;
  for (const std::string& part : parts) {
    if (part.empty()) continue;
    if (!line.empty()) line += " | ";
    line += part;
  }
  return line;
}

std::string whole_seconds(Duration duration) {
  return duration < seconds(60) ? fmt::format("{} s", duration / seconds(1))
                                : format_duration(duration);
}

std::string starting_point(const std::string& checkpoint) {
  return checkpoint.empty() ? "from the beginning" : "from " + terminal_safe(checkpoint);
}

}  // namespace

std::string waiting_text(std::size_t nodes_wanted, std::span<const WaitingNode> missing) {
  std::string text = fmt::format("waiting for {} of {} nodes: ", missing.size(), nodes_wanted);
  constexpr std::size_t kNamed = 8;
  for (std::size_t i = 0; i < missing.size() && i < kNamed; ++i) {
    const WaitingNode& node = missing[i];
    const std::string since = node.since ? " for " + whole_seconds(*node.since) : "";
    text += fmt::format("{}{} ({}{})", i == 0 ? "" : ", ", terminal_safe(node.address),
                        terminal_safe(node.problem), since);
  }
  if (missing.size() > kNamed) text += fmt::format(", and {} more", missing.size() - kNamed);
  return text;
}

Progress::Progress(ProgressOptions options, Moment at)
    : options_(std::move(options)), began_(at.now), time_left_(options_.goals) {}

std::string Progress::run_opened(const std::string& run_id, const std::string& folder,
                                 std::uint64_t logged, Moment at) {
  if (!options_.for_driver) return "";
  JsonWriter event = begin_event("run", at);
  event.member("protocol", kDriverProtocol).member("run", options_.run).member("run_id", run_id);
  return json(
      event.member("path", options_.path).member("folder", folder).member("logged", logged));
}

std::string Progress::logged(std::uint64_t bytes, Moment at) {
  if (!options_.for_driver) return "";
  JsonWriter event = begin_event("logged", at);
  return json(event.member("bytes", bytes));
}

std::string Progress::started(int world_size, int nnodes, Moment at) {
  if (options_.mode == OutputMode::Json) {
    JsonWriter event = begin_event("started", at);
    event.member("run", options_.run).member("path", options_.path);
    return json(event.member("world_size", world_size).member("nnodes", nnodes));
  }
  return lasting(fmt::format("{}: {}{} on {}, results in {}", terminal_safe(options_.run),
                             plural(world_size, "worker"), options_.other_roles,
                             plural(nnodes, "node"), terminal_safe(options_.path)),
                 at);
}

std::string Progress::attempt_started(const AttemptNews& news, Moment at) {
  samples_.clear();
  waiting_key_.clear();
  waiting_printed_at_.reset();
  phase_ = fmt::format("{} running, no report yet", plural(news.world_size, "worker"));
  if (options_.mode == OutputMode::Json) {
    JsonWriter event = begin_event("attempt", at);
    event.member("attempt", news.attempt)
        .member("world_size", news.world_size)
        .member("nnodes", news.nnodes);
    if (news.found_running) event.member("found_running", true);
    if (news.from_standby > 0) event.member("from_standby", news.from_standby);
    return json(event.text_or_null("resumes_from", news.resumes_from));
  }
  if (news.found_running) {
    return lasting(
        fmt::format("attempt {}: found {} still running on {}, nothing is restarted", news.attempt,
                    plural(news.world_size, "worker"), plural(news.nnodes, "node")),
        at);
  }
  if (news.attempt == 0 && news.resumes_from.empty()) return redraw(at);
  std::string text =
      fmt::format("attempt {}: {} on {}, {}", news.attempt, plural(news.world_size, "worker"),
                  plural(news.nnodes, "node"), starting_point(news.resumes_from));
  if (news.from_standby > 0) text += fmt::format(" ({} from standby)", news.from_standby);
  return lasting(std::move(text), at);
}

std::string Progress::waiting(std::size_t nodes_wanted, std::span<const WaitingNode> missing,
                              Moment at) {
  std::string key = fmt::format("{}", nodes_wanted);
  for (const WaitingNode& node : missing)
    key += fmt::format("\n{}\n{}", node.address, node.problem);
  const bool again = waiting_printed_at_ && at.now - *waiting_printed_at_ >= kWaitingAgainAfter;
  const bool is_news = key != waiting_key_;
  waiting_key_ = key;
  phase_ = waiting_text(nodes_wanted, missing);
  if (options_.mode == OutputMode::Live) {
    changed_ = true;
    return redraw(at);
  }
  if (!is_news && !again) return "";
  waiting_printed_at_ = at.now;
  if (options_.mode == OutputMode::Plain) return lasting(phase_, at);
  JsonWriter event = begin_event("waiting", at);
  event.member("nodes_wanted", nodes_wanted).key("missing").array();
  for (const WaitingNode& node : missing) {
    event.object().member("address", node.address).member("problem", node.problem).end();
  }
  return json(event.end());
}

std::string Progress::reports(std::span<const ReportRecord> reports, Moment at) {
  const ReportRecord* newest = nullptr;
  for (const ReportRecord& report : reports) {
    if (report.rank != 0) continue;
    newest = &report;
    ++reports_;
  }
  if (newest == nullptr) return "";
  if (options_.for_driver) return "";
  last_report_ = *newest;
  held_back_ = changed_ = true;
  phase_.clear();
  count(*newest, at.now);
  return options_.mode == OutputMode::Live ? redraw(at) : show_report(at, true);
}

std::string Progress::checkpoint(const CheckpointNews& news, Moment at) {
  checkpoint_ = news.name;
  changed_ = true;
  if (options_.mode != OutputMode::Json) return redraw(at);
  std::string out = held_back_ ? show_report(at, false) : "";
  JsonWriter event = begin_event("checkpoint", at);
  event.member("name", news.name).member("path", news.path);
  event.member("attempt", news.attempt).member("report_seq", news.report_seq).key("score");
  return out + json(news.score ? event.value(*news.score) : event.null());
}

std::string Progress::validated(const ValidationNews& news, Moment at) {
  if (options_.mode == OutputMode::Json) {
    std::string out = held_back_ ? show_report(at, false) : "";
    JsonWriter event = begin_event("validation", at);
    event.member("name", news.name).member("status", news.status).member("metrics", news.metrics);
    return out + json(event.member("took_s", std::chrono::duration<double>(news.took).count()));
  }
  if (news.status != "validated") return "";
  std::vector<std::string> metrics;
  for (const auto& [name, value] : news.metrics)
    metrics.push_back(cut_to_columns(terminal_safe(name), kMetricNameColumnsMax) + "=" +
                      short_value(value));
  return lasting(
      fmt::format("{} validated: {} (took {})", terminal_safe(news.name),
                  metrics.empty() ? "no metrics" : fmt::format("{}", fmt::join(metrics, " ")),
                  format_duration(news.took)),
      at);
}

std::string Progress::restarting(const RestartNews& news, Moment at) {
  ++restarts_;
  changed_ = true;
  phase_ = "restarting";
  std::string out = options_.mode != OutputMode::Live && held_back_ ? show_report(at, false) : "";
  if (options_.mode == OutputMode::Json) {
    JsonWriter event = begin_event("restart", at);
    event.member("attempt", news.attempt)
        .member("cause", news.cause)
        .text_or_null("resumes_from", news.resumes_from);
    if (!news.failed) event.member("failed", false);
    return out + json(event.member("wait_s", std::chrono::duration<double>(news.wait).count()));
  }
  const std::string failures =
      news.failures.empty() ? "" : fmt::format(" ({})", terminal_safe(news.failures));
  const std::string wait =
      news.wait > Duration::zero() ? fmt::format(" in {}", format_duration(news.wait)) : "";
  return out + lasting(fmt::format("attempt {} {}: {}\n{}{} {}{}", news.attempt,
                                   news.failed ? "failed" : "ended", terminal_safe(news.cause),
                                   news.failed ? "restarting" : "regrouping", wait,
                                   starting_point(news.resumes_from), failures),
                       at);
}

std::string Progress::worker_output(std::string_view lines, Moment at) {
  if (options_.mode == OutputMode::Json || lines.empty()) return "";
  std::string out = clear();
  out += lines;
  return out + redraw(at);
}

std::string Progress::warning(std::string_view text, Moment at) {
  if (options_.mode == OutputMode::Json) {
    JsonWriter event = begin_event("warning", at);
    return json(event.member("text", text));
  }
  const std::string_view word = options_.color ? "\x1b[33mwarning:\x1b[0m" : "warning:";
  std::string lines(word);
  for (std::size_t begin = 0; begin <= text.size();) {  // keep the text's line breaks
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines += begin == 0 ? " " : "\n  ";
    lines += terminal_safe(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lasting(lines, at);
}

std::string Progress::phase(std::string_view text, Moment at) {
  phase_ = terminal_safe(text);
  changed_ = true;
  if (options_.mode == OutputMode::Live) return redraw(at);
  if (options_.mode == OutputMode::Plain) return lasting(phase_, at);
  JsonWriter event = begin_event("phase", at);
  return json(event.member("text", text));
}

std::string Progress::tick(Moment at) {
  if (options_.mode != OutputMode::Live) return held_back_ ? show_report(at, true) : "";
  const bool clock_moved = !drawn_at_ || at.now - *drawn_at_ >= kClockEvery;
  changed_ = changed_ || clock_moved;
  return redraw(at);
}

std::optional<TimePoint> Progress::next_deadline() const {
  if (options_.mode == OutputMode::Live) {
    const TimePoint last = drawn_at_.value_or(began_);
    return last + (changed_ || !drawn_ ? kRedrawEvery : kClockEvery);
  }
  if (!held_back_) return std::nullopt;
  return report_is_due_at();
}

std::string Progress::finish(Moment at) {
  if (options_.mode == OutputMode::Live) return clear();
  return held_back_ ? show_report(at, false) : "";
}

std::string Progress::lasting(std::string_view line, Moment at) {
  std::string out = clear();
  out += line;
  out += '\n';
  changed_ = true;
  return out + redraw(at);
}

std::string Progress::clear() {
  if (!drawn_) return "";
  drawn_ = false;
  return "\r\x1b[K";
}

std::string Progress::redraw(Moment at) {
  if (options_.mode != OutputMode::Live || (drawn_ && !changed_)) return "";
  if (drawn_at_ && at.now - *drawn_at_ < kRedrawEvery) return "";  // tick() draws it
  std::string out = clear();
  out += status_line(at, true);
  drawn_ = true;
  changed_ = held_back_ = false;
  drawn_at_ = at.now;
  return out;
}

JsonWriter Progress::begin_event(std::string_view name, Moment at) const {
  JsonWriter event;
  event.object().member("event", name).member("time", format_utc(at.wall));
  return event;
}

std::string Progress::json(JsonWriter& event) { return std::move(event.end()).take() + "\n"; }

std::string Progress::show_report(Moment at, bool hold_back) {
  if (hold_back && at.now < report_is_due_at()) return "";
  held_back_ = false;
  printed_at_ = at.now;
  printed_epoch_ = number_of(last_report_->metrics, "epoch");
  ++printed_;
  if (options_.mode != OutputMode::Json) return lasting(status_line(at, false), at);
  JsonWriter event = begin_event("report", at);
  event.member("attempt", last_report_->attempt).member("report_seq", last_report_->report_seq);
  return json(event.member("metrics", last_report_->metrics));
}

// Return when the last report may be shown.
TimePoint Progress::report_is_due_at() const {
  if (!printed_at_) return began_;
  return *printed_at_ + (options_.mode == OutputMode::Json ? kJsonEvery : plain_interval());
}

// Return the time between the last plain line and the next one. A new epoch is worth a line; for
// anything else, lines get rarer the longer the run is. A day of training gives a few thousand
// lines.
Duration Progress::plain_interval() const {
  if (number_of(last_report_->metrics, "epoch") != printed_epoch_)
    return printed_ < 100 ? seconds(1) : seconds(10);
  return printed_ < 10 ? seconds(1) : printed_ < 100 ? seconds(10) : seconds(60);
}

std::string Progress::status_line(Moment at, bool cut) const {
  const std::string elapsed = whole_seconds(at.now - began_);
  std::vector<std::string> parts;
  if (!phase_.empty()) parts.push_back(phase_);
  const std::vector<std::string> metrics =
      phase_.empty() ? metric_parts() : std::vector<std::string>();
  parts.insert(parts.end(), metrics.begin(), metrics.end());
  const std::vector<std::string> rest = {
      phase_.empty() ? rate_text() : "", phase_.empty() ? time_left_text(at) : "",
      restarts_ > 0 ? plural(restarts_, "restart") : "", terminal_safe(checkpoint_), elapsed};
  const auto whole_line = [&] {
    std::vector<std::string> all = parts;
    all.insert(all.end(), rest.begin(), rest.end());
    return join(all);
  };
  if (!cut) return whole_line();
  // Leave the last column free: some terminals wrap as soon as it is written.
  const int columns = std::max(options_.columns - 1, 10);
  while (parts.size() > 1 && columns_of(whole_line()) > columns) parts.pop_back();
  return cut_to_columns(whole_line(), columns);
}

// Return epoch and step first, then the configured metrics, then the others as reported.
std::vector<std::string> Progress::metric_parts() const {
  std::vector<std::string> parts;
  if (!last_report_) return parts;
  std::vector<std::string_view> order = {"epoch", "step"};
  order.insert(order.end(), options_.metrics.begin(), options_.metrics.end());
  for (const auto& metric : last_report_->metrics) order.push_back(metric.first);
  std::vector<std::string_view> shown;
  for (const std::string_view wanted : order) {
    if (shown.size() >= kMetricsShown ||
        std::find(shown.begin(), shown.end(), wanted) != shown.end())
      continue;
    for (const auto& [name, value] : last_report_->metrics) {
      if (name != wanted) continue;
      shown.push_back(name);
      parts.push_back(cut_to_columns(terminal_safe(name), kMetricNameColumnsMax) + " " +
                      short_value(value));
      break;
    }
  }
  return parts;
}

void Progress::count(const ReportRecord& report, TimePoint now) {
  time_left_.reported(report.metrics, now);
  const auto step = number_of(report.metrics, "step");
  const double counter = step ? *step : static_cast<double>(reports_);
  const bool other_counter = counts_steps_ != step.has_value();
  if (other_counter || (!samples_.empty() && counter < samples_.back().second)) samples_.clear();
  counts_steps_ = step.has_value();
  // Both ends move: the newest sample is replaced until it is kSampleEvery after the one before it.
  if (samples_.size() >= 2 && now - samples_[samples_.size() - 2].first < kSampleEvery)
    samples_.pop_back();
  samples_.emplace_back(now, counter);
  while (samples_.size() > 2 && now - samples_.front().first > kRateWindow) samples_.pop_front();
}

std::string Progress::rate_text() const {
  if (samples_.size() < 2) return "";
  const double span_s =
      std::chrono::duration<double>(samples_.back().first - samples_.front().first).count();
  const double counted = samples_.back().second - samples_.front().second;
  if (span_s < 0.1) return "";
  const double rate = counted / span_s;
  if (!std::isfinite(rate) || rate < kRateMin) return "";
  if (counts_steps_ && rate >= 1)
    return rate >= 100 ? fmt::format("{:.0f} steps/s", rate) : fmt::format("{:.3g} steps/s", rate);
  const std::string each =
      rate > 1      ? fmt::format("{:.3g} ms", 1000 / rate)
      : rate > 0.01 ? fmt::format("{:.3g} s", 1 / rate)
                    : whole_seconds(Duration(seconds(static_cast<std::int64_t>(1 / rate))));
  return each + (counts_steps_ ? " per step" : " per report");
}

std::string Progress::time_left_text(Moment at) const {
  const auto left = time_left_.left(at.now);
  if (!left || *left < seconds(1)) return "";
  const Duration rounded = *left < seconds(60) ? *left : *left / seconds(10) * seconds(10);
  return "about " + whole_seconds(rounded) + " left";
}

}  // namespace train
