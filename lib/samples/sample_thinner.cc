#include "lib/samples/sample_thinner.h"

#include <utility>
#include <vector>

namespace train {
namespace {

constexpr std::int64_t kMinute = 60'000;

SampleTable merged(SampleTable first, SampleTable next) {
  const std::vector<SampleTable> both{std::move(first), std::move(next)};
  return merge_samples(both);
}

}  // namespace

std::int64_t span_at_age(std::int64_t age_ms) {
  if (age_ms < 10 * kMinute) return 0;
  return age_ms < 120 * kMinute ? 10'000 : kMinute;
}

SampleThinner::Group& SampleThinner::group_of(const SampleTable& table) {
  Group& group = groups_[static_cast<std::size_t>(table.kind)];
  if (group.table && group.table->attempt != table.attempt) pass_on(group);
  return group;
}

void SampleThinner::pass_on(Group& group) {
  if (group.table) take_(*group.table);
  group = {};
}

void SampleThinner::add(SampleTable table, std::int64_t span_ms) {
  Group& group = group_of(table);
  const std::int64_t number = span_ms > 0 ? (table.end_ms - 1) / span_ms : 0;
  if (span_ms > 0 && group.table && group.span_ms == span_ms && group.number == number) {
    group.table = merged(std::move(*group.table), std::move(table));
    return;
  }
  pass_on(group);
  if (span_ms == 0) return take_(table);
  group = {std::move(table), span_ms, number};
}

void SampleThinner::add_pair(SampleTable table) {
  Group& group = group_of(table);
  if (!group.table) {
    group.table = std::move(table);
    return;
  }
  group.table = merged(std::move(*group.table), std::move(table));
  pass_on(group);
}

void SampleThinner::finish() {
  for (Group& group : groups_) pass_on(group);
}

}  // namespace train
