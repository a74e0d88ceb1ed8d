// What a process said, for golden files.
#pragma once

#include <string>

#include "tests/e2e/cluster.h"
#include "tests/fakes/golden.h"

namespace train::e2e {

/// Return `text` with every `what` replaced by `with`.
inline std::string replaced(std::string text, const std::string& what, const std::string& with) {
  for (std::size_t at = 0; !what.empty() && (at = text.find(what, at)) != std::string::npos;
       at += with.size())
    text.replace(at, what.size(), with);
  return text;
}

/// Return a process's output and exit code, without what differs between machines.
inline std::string said_by(const Cluster& cluster, Process& process) {
  const int code = process.wait().value_or(-1);
  std::string text = process.out() +
                     (process.err().empty() ? "" : "---- errors\n" + process.err()) +
                     "---- exit code " + std::to_string(code) + "\n";
  std::string host = read_file("/proc/sys/kernel/hostname");
  host = host.substr(0, host.find('\n'));
  text = replaced(replaced(text, cluster.dir(), "DIR"), program(""), "PROGRAMS/");
  for (const auto& [before, after] :
       {std::pair{"node ", ""}, std::pair{"on ", ""}, std::pair{"[", " "}, std::pair{"(", ""},
        std::pair{" ", " ("}, std::pair{" ", ":"}}) {
    text = replaced(text, before + host + after, std::string(before) + "HOST" + after);
  }
  return text;
}

inline void expect_golden(const std::string& name, const std::string& text) {
  fakes::expect_golden(TRAIN_SOURCE_DIR "/tests/golden/cli/" + name + ".txt", text);
}

}  // namespace train::e2e
