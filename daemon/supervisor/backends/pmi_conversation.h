// What one process of an MPI program says in PMI-1, MPICH's text protocol, and what it is answered.
// The program may be anything: every line, key and value has a limit. Pure.
#pragma once

#include <string>
#include <string_view>

#include "daemon/supervisor/backends/pmi_space.h"

namespace train {

class PmiConversation {
 public:
  /// `space` must outlive it.
  PmiConversation(const PmiSpace& space, int rank) : space_(space), rank_(rank) {}

  /// Take in what the process wrote. Return what to answer. An error ends the conversation. Once a
  /// barrier is due, nothing more is answered until end_barrier().
  Result<std::string> received(std::string_view bytes);

  bool at_barrier() const { return at_barrier_; }
  /// Return what the rank has put since its last barrier, for PmiSpace::merge().
  const std::string& put() const { return put_; }
  /// Return the answer to the barrier, and to what the process said after it.
  Result<std::string> end_barrier(const Result<Unit>& outcome);
  bool has_begun() const { return begun_; }

 private:
  Result<std::string> answer_lines();
  std::string answer(std::string_view line);
  std::string take_put(std::string_view line);
  std::string get(std::string_view line) const;

  const PmiSpace& space_;
  const int rank_;
  std::string unread_;  // an unfinished line, and all lines after a barrier
  std::string put_;
  bool begun_ = false;
  bool at_barrier_ = false;
  bool in_multi_line_ = false;  // mcmd=… to endcmd
};

}  // namespace train
