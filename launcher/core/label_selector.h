// Which nodes a label selector of the spec accepts. The syntax is Ray's: a label's name → "H100",
// "!r2", "in(a,b)" or "!in(a,b)". Pure.
#pragma once

#include <string>
#include <string_view>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"
#include "lib/model/labels.h"

namespace train {

/// Check one condition. InvalidSpec says what is wrong, and its hint what to write.
Result<Unit> check_label_condition(std::string_view condition);

/// Return whether a node with these labels meets all conditions. A node without the label meets
/// "!a" and "!in(a,b)", as in Ray. Precondition: the conditions have been checked.
bool accepts(const LabelSelector& selector, const Labels& labels);

/// Return "gpu: H100, rack: !r2".
std::string describe(const LabelSelector& selector);
/// Return "gpu=H100, rack=r1", or "no labels"; of many the first eight, and how many more.
std::string describe_labels(const Labels& labels);

}  // namespace train
