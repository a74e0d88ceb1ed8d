// Stacks as JSON, for programs: classes, ranks with their threads, and one table of frames, to
// which the threads refer by index. Pure.
#pragma once

#include <string>
#include <vector>

#include "lib/stacks/stack_classes.h"

namespace train {

/// Return one line:
/// {"classes":[{"ranks":[0,1],"where":"…","functions":["…"],"has_stack":true}],
///  "ranks":[{"rank":0,"node":"…","pid":1,"executable":"…","notes":[],
///            "threads":[{"tid":1,"name":"…","state":"S","syscall":"read","wchan":null,"note":null,
///                        "kernel_stack":null,"stopped_us":52,"frames":[0,1]}]}],
///  "frames":[{"function":"…","module":"…","offset":1,"file":"…","line":1,"inlined":false,
///             "guessed":false,"python":false}]}
std::string stacks_json(const std::vector<RankStacks>& ranks);

}  // namespace train
