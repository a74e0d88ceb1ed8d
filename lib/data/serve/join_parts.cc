#include "lib/data/serve/join_parts.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/data/arrow_error.h"
#include "lib/data/kept_rows.h"
#include "lib/data/row_gatherer.h"

namespace train::data {
namespace {

constexpr std::string_view kJoining = "cannot put a batch together";

/// The rows that the maps have made of a batch, before those that are left out were.
struct MadeRows {
  std::vector<RowsOfPart> places = {};  // where each lies; at -1 if it is left out
  std::vector<bool> is_lost = {};
  std::int64_t valid_rows = 0;
  std::vector<RowError> bad = {};
};

/// Goes through the parts of a batch, row by row.
class Walk {
 public:
  Walk(const std::vector<const PartRows*>& parts, std::int64_t valid_rows, bool is_flat)
      : parts_(parts), next_(parts.size()), valid_rows_(valid_rows), is_flat_(is_flat) {}

  /// Go on by the next row that was asked for.
  void step(std::size_t part) {
    Next& at = next_[part];
    const PartRows& rows = *parts_[part];
    if (at.bad < rows.bad.size() && rows.bad[at.bad].row == at.asked)
      made_.bad.push_back({planned_, rows.bad[at.bad++].why});
    const std::uint32_t count =
        rows.counts.empty() ? 1 : rows.counts[static_cast<std::size_t>(at.asked)];
    for (std::uint32_t i = 0; i < count; ++i, ++at.made) {
      const bool is_lost = at.lost < rows.lost.size() && rows.lost[at.lost] == at.made;
      at.lost += is_lost ? 1 : 0;
      const std::int64_t row = is_lost ? -1 : at.kept++;
      if (is_flat_ && planned_ >= valid_rows_) continue;  // a repeat
      made_.places.push_back({static_cast<std::int64_t>(part), row, 1});
      made_.is_lost.push_back(is_lost);
      if (planned_ < valid_rows_) ++made_.valid_rows;
    }
    ++at.asked;
    ++planned_;
  }
  MadeRows take() { return std::move(made_); }

 private:
  struct Next {
    std::int64_t asked = 0, made = 0, kept = 0;
    std::size_t bad = 0, lost = 0;
  };
  const std::vector<const PartRows*>& parts_;
  std::vector<Next> next_;
  const std::int64_t valid_rows_;
  const bool is_flat_;
  std::int64_t planned_ = 0;
  MadeRows made_;
};

std::vector<RowsOfPart> as_they_come(const std::vector<const PartRows*>& parts,
                                     const std::vector<RowsFromPart>& order) {
  std::vector<std::int64_t> next(parts.size());
  std::vector<RowsOfPart> ranges;
  for (const RowsFromPart& from : order) {
    ranges.push_back({static_cast<std::int64_t>(from.part), next[from.part], from.count});
    next[from.part] += from.count;
  }
  return ranges;
}

bool grows(const std::vector<std::int64_t>& rows, std::int64_t end) {
  std::int64_t last = -1;
  return std::all_of(rows.begin(), rows.end(),
                     [&](std::int64_t row) { return row > std::exchange(last, row) && row < end; });
}

}  // namespace

Result<Unit> check_part(const PartRows& part, std::int64_t rows) {
  const std::int64_t has = part.rows->num_rows();
  std::int64_t made = rows;
  if (!part.counts.empty()) {
    made = 0;
    for (const std::uint32_t count : part.counts) made += count;
  }
  if (has != made || (!part.counts.empty() && std::cmp_not_equal(part.counts.size(), rows)))
    return Error{Errc::Corrupt, fmt::format("{} rows came for {}", has, rows)};
  std::vector<std::int64_t> bad;
  for (const RowError& one : part.bad) bad.push_back(one.row);
  if (!grows(bad, rows) || !grows(part.lost, has))
    return Error{Errc::Corrupt, fmt::format("rows are left out that {} rows do not have", rows)};
  return Unit{};
}

Result<JoinedRows> join_parts(const std::vector<const PartRows*>& parts,
                              const std::vector<RowsFromPart>& order, std::int64_t valid_rows) {
  arrow::RecordBatchVector batches;
  bool is_flat = false, is_whole = true;
  for (const PartRows* part : parts) {
    batches.push_back(part->rows);
    is_flat |= !part->counts.empty();
    is_whole &= part->bad.empty() && part->lost.empty();
    if (!batches.back()->schema()->Equals(*batches.front()->schema()))
      return Error{
          Errc::Corrupt,
          fmt::format("ingest workers give different columns: {}, and {}",
                      batches.front()->schema()->ToString(), batches.back()->schema()->ToString()),
          "maps must make the same columns of every row"};
  }
  JoinedRows joined{.rows = batches.front(), .valid_rows = valid_rows};
  if (is_whole && !is_flat) {
    if (batches.size() == 1) return joined;
    ARROW_TRY(joined.rows, kJoining, gather_rows(batches, as_they_come(parts, order)));
    return joined;
  }
  Walk walk(parts, valid_rows, is_flat);
  for (const RowsFromPart& from : order)
    for (std::int64_t i = 0; i < from.count; ++i) walk.step(from.part);
  MadeRows made = walk.take();
  const KeptRows kept = kept_rows(made.is_lost, made.valid_rows);
  std::vector<RowsOfPart> ranges;
  for (const std::int64_t row : kept.order)
    ranges.push_back(made.places[static_cast<std::size_t>(row)]);
  // Nothing to repeat: the rows are what comes of zeros.
  if (ranges.empty() && !is_flat) ranges = as_they_come(parts, order);
  joined.valid_rows = kept.valid_rows;
  joined.bad = std::move(made.bad);
  ARROW_TRY(joined.rows, kJoining, gather_rows(batches, ranges));
  return joined;
}

}  // namespace train::data
