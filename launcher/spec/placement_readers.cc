// Reads what says where workers run: label selectors and GPUs.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/core/label_selector.h"
#include "launcher/spec/kind_readers.h"
#include "lib/model/gpu_choice.h"

namespace train::spec {

using yaml::Cursor;
using yaml::in_quotes;
using yaml::Node;

namespace {

void read_selector(Reading& reading, const Cursor& cursor, LabelSelector& selector) {
  for (const Cursor::Entry& entry : cursor.entries()) {
    if (!is_label_name(entry.key)) {
      reading.diagnostics.error(entry.key_at,
                                fmt::format("{} can be no label's name", in_quotes(entry.key)),
                                std::string(kLabelRule));
      continue;
    }
    reading.remember(entry.value);
    const auto condition = entry.value.text();
    if (!condition) continue;
    if (const auto checked = check_label_condition(*condition); !checked)
      entry.value.error(checked.error().message, checked.error().hint);
    else
      selector[std::string(entry.key)] = *condition;
  }
}

}  // namespace

void read_labels(Reading& reading, const Cursor& cursor, std::vector<LabelSelector>& selectors) {
  selectors.clear();
  reading.remember(cursor);
  if (cursor.node().is(Node::Kind::Map)) {
    LabelSelector selector;
    read_selector(reading, cursor, selector);
    if (!selector.empty()) selectors.push_back(std::move(selector));
    return;
  }
  if (!cursor.node().is(Node::Kind::Sequence))
    return cursor.error("is no mapping, and no list of them",
                        "write {gpu: H100}, or a list with one mapping for each worker");
  const std::vector<Cursor> items = cursor.items();
  if (items.size() > kSelectorsMax)
    return cursor.error(
        fmt::format("has {} selectors, and may have {}", items.size(), kSelectorsMax),
        "write one mapping for all workers");
  for (const Cursor& item : items) {
    if (!item.node().is(Node::Kind::Map)) {
      item.error(fmt::format("is {}, not a mapping", yaml::describe(item.node().kind)),
                 "write {gpu: H100}, or {} for a worker that may run anywhere");
      continue;
    }
    read_selector(reading, item, selectors.emplace_back());
  }
}

void read_gpus(Reading& reading, const Cursor& cursor, std::vector<std::string>& gpus) {
  gpus.clear();
  reading.remember(cursor);
  for (const Cursor& item : cursor.items()) {
    const auto name = item.text();
    if (!name) continue;
    if (!is_gpu_name(*name))
      item.error(fmt::format("is {}, which names no GPU", in_quotes(*name)),
                 "write an index, or a UUID or its beginning, such as GPU-8f2c");
    else if (std::find(gpus.begin(), gpus.end(), *name) != gpus.end())
      item.error(fmt::format("names {} again", *name), "remove it");
    else
      gpus.push_back(*name);
  }
}

}  // namespace train::spec
