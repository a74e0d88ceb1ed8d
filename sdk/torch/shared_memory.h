// Sums and gathers arrays of the ranks of one node through memory that they share. No tensors.
//
// Each rank has two slots. For each piece of an array, it copies its own part into one of them, and
// then reads those of all ranks: it adds them up, in the order of the ranks, so that all get the
// same bits, or puts them side by side. While the others still read a piece, it writes the next
// one.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train::sdk {

inline constexpr int kSharedRanksMax = 16;  // each adds up the arrays of all, so more would be slow
inline constexpr std::size_t kSharedSlotBytes = std::size_t{512} << 10;

enum class SharedOp : std::uint32_t {
  AllReduce,      // every rank gets the sum of all arrays
  AllGather,      // every rank gets all arrays, one after the other
  ReduceScatter,  // each array has a part for each rank, which gets the sum of these
};
enum class SumType : std::uint32_t { Float32, Float64, BFloat16, Float16, Int32, Int64 };
std::size_t element_size(SumType type);

class SharedMemory {
 public:
  /// Make the memory of a group, as `rank` of `ranks`.
  static Result<std::unique_ptr<SharedMemory>> make(int rank, int ranks);
  /// Open the memory that another rank of this user made on this machine. `name`: its name().
  static Result<std::unique_ptr<SharedMemory>> open(const std::string& name, int rank, int ranks);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Return what another rank needs to open it, while this object exists.
  std::string name() const;

  struct Call {
    SharedOp op = SharedOp::AllReduce;
    SumType type = SumType::Float32;
    const void* input = nullptr;
    void* output = nullptr;    // AllReduce: may be the input
    std::size_t elements = 0;  // of the input; ReduceScatter: of the output
    std::chrono::milliseconds timeout{};
    const std::atomic<bool>* stop = nullptr;  // ends a call that waits
  };
  /// Do what `op` says. All ranks call it, one call at a time, with the same operation, type and
  /// number of elements: InvalidArgument on each if these differ. Timeout: a rank did not
  /// come, and is named. Unavailable: a rank has ended. Cancelled: `stop`. After any error, the
  /// memory is of no use.
  Result<Unit> run(const Call& call);

 private:
  struct Layout;
  SharedMemory(FileDescriptor file, Layout* layout, int rank, int ranks)
      : file_(std::move(file)), layout_(layout), rank_(rank), ranks_(ranks) {}
  static Result<std::unique_ptr<SharedMemory>> map(FileDescriptor file, int rank, int ranks);
  Result<Unit> await(const Call& call, bool written, std::uint32_t count);
  Result<Unit> compare();
  std::byte* slot(int rank, std::uint32_t piece) const;
  std::size_t piece_elements(const Call& call) const;
  void copy_in(const Call& call, std::size_t first, std::size_t count, std::byte* slot) const;
  void copy_out(const Call& call, std::size_t first, std::size_t count) const;

  FileDescriptor file_;
  Layout* layout_;
  int rank_, ranks_;
  std::uint32_t pieces_ = 0;  // of all calls so far
};

}  // namespace train::sdk
