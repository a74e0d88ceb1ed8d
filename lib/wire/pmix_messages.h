// Messages between a supervisor and trainrun-pmix, the program that serves PMIx to the workers of a
// node (backend: mpi, pmi: pmix). PROTOCOL.md, "Supervisor ↔ trainrun-pmix".
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "lib/wire/message_type.h"

namespace train {

struct ServePmix {  // supervisor → trainrun-pmix: the first message
  static constexpr MessageType kType = MessageType::ServePmix;
  std::string name = {};                      // of the MPI program: PMIx's namespace
  std::vector<std::int32_t> node_sizes = {};  // ranks of each node, which follow each other
  std::int32_t node_rank = 0;                 // ours
  std::string dir = {};                       // an existing folder of ours, for PMIx's files
  std::vector<std::string> libraries = {};    // libpmix.so.2 is the first of these that opens
  TRAIN_FIELDS(name, node_sizes, node_rank, dir, libraries)
};

struct PmixServed {  // trainrun-pmix → supervisor: the answer to ServePmix
  static constexpr MessageType kType = MessageType::PmixServed;
  std::string error = {};                                             // why it does not serve
  std::vector<std::map<std::string, std::string>> environments = {};  // of our ranks, in order
  TRAIN_FIELDS(error, environments)
};

struct PmixFence {  // trainrun-pmix → supervisor: all of our ranks have come to a fence
  static constexpr MessageType kType = MessageType::PmixFence;
  std::uint64_t fence = 0;  // 1, 2, …
  bool own_ranks = false;   // only ranks of this node take part
  std::string data = {};    // what all that take part are to get
  TRAIN_FIELDS(fence, own_ranks, data)
};

struct PmixFenceOver {  // supervisor → trainrun-pmix: all ranks have come to it
  static constexpr MessageType kType = MessageType::PmixFenceOver;
  std::uint64_t fence = 0;
  std::string error = {};  // why that will not happen
  std::string data = {};   // of all nodes, in their order
  TRAIN_FIELDS(fence, error, data)
};

struct PmixNotice {  // trainrun-pmix → supervisor: what a rank does
  static constexpr MessageType kType = MessageType::PmixNotice;
  std::int32_t rank = -1;  // −1: of no rank
  bool began = false;      // it has called MPI_Init
  std::string text = {};   // what users should know
  TRAIN_FIELDS(rank, began, text)
};

}  // namespace train
