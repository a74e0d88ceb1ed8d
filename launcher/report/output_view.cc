#include "launcher/report/output_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace train {
namespace {

constexpr int kStdout = 1, kStderr = 2;  // the numbers of streams

}  // namespace

OutputView::OutputView(OutputViewOptions options)
    : options_(std::move(options)),
      folder_({.window = options_.window}),
      run_cap_(options_.lines_max * kRunFactor) {}

std::string OutputView::begin(std::uint32_t attempt, const std::vector<std::int32_t>& local_ranks,
                              const std::vector<std::string>& roles) {
  std::string out = close();
  attempt_ = attempt;
  local_ranks_ = local_ranks;
  roles_ = roles;
  workers_.clear();
  dropping_.clear();
  const auto shown = std::count_if(local_ranks.begin(), local_ranks.end(), [&](std::int32_t local) {
    return shows(local, kStdout) || shows(local, kStderr);
  });
  folder_.ranks_are(static_cast<std::size_t>(shown));
  return out;
}

bool OutputView::shows(std::int32_t local_rank, int stream) const {
  if (options_.local_ranks && !options_.local_ranks->contains(local_rank)) return false;
  return !options_.redirects.contains(local_rank, stream) ||
         options_.tee.contains(local_rank, stream);
}

OutputView::Worker& OutputView::worker(const std::string& node, std::int32_t rank) {
  const auto found = workers_.find(rank);
  if (found != workers_.end() && found->second.origin.node == node) return found->second;
  const auto index = static_cast<std::size_t>(rank);
  const std::int32_t local = index < local_ranks_.size() ? local_ranks_[index] : 0;
  const std::string role = index < roles_.size() ? roles_[index] : "";
  Worker anew{.origin = {.node = node, .rank = rank, .local_rank = local, .role = role},
              .prefix = "",
              .shown = {shows(local, kStdout), shows(local, kStderr)},
              .cap = LineCap(options_.lines_max)};
  dropping_.erase(rank);
  anew.prefix = options_.prefix.of(std::array<const LineOrigin*, 1>{&anew.origin}, attempt_);
  return workers_.insert_or_assign(rank, std::move(anew)).first->second;
}

std::string OutputView::feed(const std::string& node, std::int32_t rank, int stream,
                             std::string_view data, bool end, TimePoint now) {
  now_ = now;
  std::string out;
  Worker& from = worker(node, rank);
  if (!from.shown[stream == kStderr ? 1 : 0]) return out;
  from.streams[stream].feed(
      data, end, [&](std::string_view text, std::size_t) { line(from, text, now, out); });
  if (end) from.streams.erase(stream);
  return out;
}

void OutputView::line(Worker& worker, std::string_view text, TimePoint now, std::string& out) {
  if (worker.cap.is_due(now)) note_dropped(worker, now, out);
  if (worker.cap.take(text.size(), 1, now)) return pass(worker, text, now, out);
  dropping_.insert(worker.origin.rank);
}

void OutputView::note_dropped(Worker& worker, TimePoint now, std::string& out) {
  const std::uint64_t lines = worker.cap.take_dropped();
  if (lines == 0) return;
  dropping_.erase(worker.origin.rank);
  pass(worker,
       fmt::format("… {} lines not shown (see attempts/{:03}/ranks/{:04})", with_commas(lines),
                   attempt_, worker.origin.rank),
       now, out);
}

void OutputView::pass(const Worker& worker, std::string_view text, TimePoint now,
                      std::string& out) {
  if (options_.fold) return show(folder_.feed(worker.origin.rank, text, now), now, out);
  show({{std::string(text), {worker.origin.rank}}}, now, out);
}

void OutputView::show(const std::vector<FoldedLine>& lines, TimePoint now, std::string& out) {
  std::vector<const LineOrigin*> origins;
  for (const FoldedLine& line : lines) {
    if (run_cap_.is_due(now)) note_dropped_of_run(out);
    if (!run_cap_.take(line.text.size(), line.ranks.size(), now)) continue;
    if (line.ranks.size() == 1) {
      out += workers_.at(line.ranks.front()).prefix;
    } else {
      origins.clear();
      for (const std::int32_t rank : line.ranks) origins.push_back(&workers_.at(rank).origin);
      out += options_.prefix.of(origins, attempt_);
    }
    out += line.text;
    out += '\n';
  }
}

void OutputView::note_dropped_of_run(std::string& out) {
  const std::uint64_t lines = run_cap_.take_dropped();
  if (lines == 0) return;
  out += fmt::format("[all] … {} lines not shown (see attempts/{:03}/ranks)\n", with_commas(lines),
                     attempt_);
}

std::string OutputView::due(TimePoint now) {
  now_ = now;
  std::string out;
  for (auto at = dropping_.begin(); at != dropping_.end();) {
    Worker& worker = workers_.at(*at++);  // note_dropped() removes it
    if (worker.cap.is_due(now)) note_dropped(worker, now, out);
  }
  show(folder_.due(now), now, out);
  if (run_cap_.is_due(now)) note_dropped_of_run(out);
  return out;
}

std::string OutputView::flush() {
  std::string out;
  show(folder_.flush(), now_, out);
  return out;
}

std::string OutputView::close() {
  std::string out;
  for (auto& [rank, of_rank] : workers_) {
    auto& worker = of_rank;  // clang 14 lets no lambda capture a structured binding
    for (auto& [number, lines] : worker.streams)
      lines.feed("", true,
                 [&](std::string_view text, std::size_t) { line(worker, text, now_, out); });
    worker.streams.clear();
    note_dropped(worker, now_, out);
  }
  show(folder_.flush(), now_, out);
  note_dropped_of_run(out);
  return out;
}

std::optional<TimePoint> OutputView::next_deadline() const {
  std::optional<TimePoint> next = folder_.next_deadline();
  const auto also = [&next](std::optional<TimePoint> other) {
    if (other && (!next || *other < *next)) next = other;
  };
  for (const std::int32_t rank : dropping_) also(workers_.at(rank).cap.deadline());
  also(run_cap_.deadline());
  return next;
}

}  // namespace train
