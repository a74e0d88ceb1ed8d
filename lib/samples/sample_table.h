// What was measured of a run at one time, as a table: a row for each rank, node or GPU, a column
// for each field. The launcher writes such tables into samples.jsonl (lib/storage/FORMAT.md,
// section 9); train-run status and the dashboard read them. This file also lists all fields. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// What the rows of a table are.
enum class SampleKind : std::uint8_t {
  Ranks,     // "3". Of more than kRanksKeptMax ranks, only the kWorstRanks worst
  RankSums,  // "node-a": the ranks of a node together, if there are more than kRanksKeptMax
  Nodes,     // "node-a"
  Gpus,      // "node-a/0": a GPU by its index on its node
  Data       // "train/decode/3": an operator of a dataset on a rank, or "all" of them (data_rows.h)
};

/// As they are written in the file.
inline constexpr std::array<std::string_view, 5> kSampleKinds{"ranks", "rank_sums", "nodes", "gpus",
                                                              "data"};
constexpr std::string_view to_string(SampleKind kind) {
  return kSampleKinds[static_cast<std::size_t>(kind)];
}
std::optional<SampleKind> parse_sample_kind(std::string_view name);

inline constexpr std::size_t kRanksKeptMax = 512;
inline constexpr std::size_t kWorstRanks = 16;

/// How several values of a field become one, for a longer time.
enum class SampleMerge : std::uint8_t { Mean, Max, Last };

struct SampleField {
  std::string_view name;  // its unit is in FORMAT.md, section 9
  SampleMerge merge = SampleMerge::Last;
  bool is_text = false;
};

/// Return all fields of a kind.
std::span<const SampleField> sample_fields(SampleKind kind);
/// Return the field, or nullptr if there is none of this name.
const SampleField* find_sample_field(SampleKind kind, std::string_view name);

/// A column has a value for each row: `numbers` or `texts`, as its field says. A value that is not
/// known is NaN, or an empty text.
struct SampleColumn {
  const SampleField* field = nullptr;
  std::vector<double> numbers = {};
  std::vector<std::string> texts = {};
};

struct SampleTable {
  SampleKind kind = SampleKind::Ranks;
  std::int64_t end_ms = 0;   // wall time since 1970 at the end of the time that this covers
  std::int64_t span_ms = 0;  // how long that time is
  std::uint32_t attempt = 0;
  std::uint32_t total = 0;  // of Ranks: how many there are, if only the worst are rows; else 0
  std::vector<std::string> rows = {};
  std::vector<SampleColumn> columns = {};  // each field once at most

  const SampleColumn* find(std::string_view field) const;
  /// Return the value; NaN or "" if it is not known.
  double number(std::string_view field, std::size_t row) const;
  std::string_view text(std::string_view field, std::size_t row) const;
};

/// Merge tables of one kind, oldest first, into one that covers their whole time. Rows are those of
/// all tables; a mean counts the time that each value covers.
SampleTable merge_samples(std::span<const SampleTable> tables);

}  // namespace train
