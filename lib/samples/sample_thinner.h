// Decides what a file of samples keeps when it is rewritten (lib/storage/FORMAT.md, section 9,
// "Age"): tables in, fewer tables out. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>

#include "lib/samples/sample_table.h"

namespace train {

/// Merges tables of one kind and attempt that follow each other. Each table goes to `take` once no
/// later one can be merged with it.
class SampleThinner {
 public:
  explicit SampleThinner(std::function<void(const SampleTable&)> take) : take_(std::move(take)) {}

  /// Merge the table with earlier ones that fall into the same `span_ms`, counted from 1970. 0:
  /// merge it with none.
  void add(SampleTable table, std::int64_t span_ms);
  /// Merge the table with the one before it, unless that was merged so.
  void add_pair(SampleTable table);
  /// Pass on what is left.
  void finish();

 private:
  struct Group {
    std::optional<SampleTable> table;
    std::int64_t span_ms = 0;
    std::int64_t number = 0;  // of the span, since 1970
  };
  Group& group_of(const SampleTable& table);
  void pass_on(Group& group);

  std::function<void(const SampleTable&)> take_;
  std::array<Group, kSampleKinds.size()> groups_;  // by kind
};

/// Return what a line is to cover when it is `age_ms` old; 0: as it is.
std::int64_t span_at_age(std::int64_t age_ms);

}  // namespace train
