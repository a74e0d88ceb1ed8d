// Sums arrays of the ranks of one node through memory that they share. No tensors.
//
// Each rank has two slots. For each piece of an array, it copies its own part into one of them and
// adds up those of all ranks, in the order of the ranks, so that all get the same bits. While the
// others still read a piece, it writes the next one.
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
    SumType type = SumType::Float32;
    void* data = nullptr;
    std::size_t elements = 0;
    std::chrono::milliseconds timeout{};
    const std::atomic<bool>* stop = nullptr;  // ends a call that waits
  };
  /// Replace `data` by the sum over all ranks. All ranks call it, one call at a time, with the same
  /// type and number of elements: InvalidArgument on each if these differ. Timeout: a rank did not
  /// come, and is named. Unavailable: a rank has ended. Cancelled: `stop`. After any error, the
  /// memory is of no use.
  Result<Unit> sum(const Call& call);

 private:
  struct Layout;
  SharedMemory(FileDescriptor file, Layout* layout, int rank, int ranks)
      : file_(std::move(file)), layout_(layout), rank_(rank), ranks_(ranks) {}
  static Result<std::unique_ptr<SharedMemory>> map(FileDescriptor file, int rank, int ranks);
  Result<Unit> await(const Call& call, bool written, std::uint32_t count);
  Result<Unit> compare();
  std::byte* slot(int rank, std::uint32_t piece) const;

  FileDescriptor file_;
  Layout* layout_;
  int rank_, ranks_;
  std::uint32_t pieces_ = 0;  // of all calls so far
};

}  // namespace train::sdk
