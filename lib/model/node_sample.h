// What a node and its GPUs are doing, as the kernel and NVIDIA's driver say.
#pragma once

#include <cstdint>
#include <string>

#include "lib/model/fields.h"

namespace train {

/// A value that is not known, or that the device does not tell.
inline constexpr std::int64_t kNotKnown = -1;

/// A node at one moment. Counters count since it was started.
struct NodeSample {
  std::int64_t cpus = kNotKnown;
  std::int64_t cpu_us = kNotKnown;           // used, by all cores
  std::int64_t load_hundredths = kNotKnown;  // of a minute
  std::int64_t memory_bytes = kNotKnown, memory_used_bytes = kNotKnown;
  std::int64_t swap_used_bytes = kNotKnown;
  std::int64_t spool_free_bytes = kNotKnown, spool_bytes = kNotKnown;  // of its file system
  std::int64_t read_bytes = kNotKnown, written_bytes = kNotKnown;      // by disks
  std::int64_t received_bytes = kNotKnown, sent_bytes = kNotKnown;     // by network interfaces
  // How long some process waited for it (PSI).
  std::int64_t cpu_pressure_us = kNotKnown, memory_pressure_us = kNotKnown,
               io_pressure_us = kNotKnown;
  bool operator==(const NodeSample&) const = default;
  TRAIN_ARRAY(cpus, cpu_us, load_hundredths, memory_bytes, memory_used_bytes, swap_used_bytes,
              spool_free_bytes, spool_bytes, read_bytes, written_bytes, received_bytes, sent_bytes,
              cpu_pressure_us, memory_pressure_us, io_pressure_us)
};

/// A GPU at one moment.
struct GpuSample {
  std::string gpu = {};      // as CUDA_VISIBLE_DEVICES names it
  std::string name = {};     // "NVIDIA H100 80GB HBM3"
  std::string state = "ok";  // ok | not answering | lost | unknown (another one does not answer)
  std::int64_t use_percent = kNotKnown, memory_use_percent = kNotKnown;
  std::int64_t memory_bytes = kNotKnown, memory_used_bytes = kNotKnown;
  std::int64_t power_mw = kNotKnown, power_limit_mw = kNotKnown;
  std::int64_t temperature_c = kNotKnown;
  std::int64_t clock_mhz = kNotKnown, memory_clock_mhz = kNotKnown;
  std::string slowed_by = {};  // "power cap, thermal"; empty: by nothing
  std::int64_t ecc_corrected = kNotKnown,
               ecc_uncorrected = kNotKnown;  // since the driver was loaded
  std::int64_t xids = 0;                     // since traind began
  std::int64_t last_xid = 0;                 // 0: none
  std::string foreign = {};                  // "pid 4242 (python3)": uses it, and is of no run here
  bool operator==(const GpuSample&) const = default;
  TRAIN_ARRAY(gpu, name, state, use_percent, memory_use_percent, memory_bytes, memory_used_bytes,
              power_mw, power_limit_mw, temperature_c, clock_mhz, memory_clock_mhz, slowed_by,
              ecc_corrected, ecc_uncorrected, xids, last_xid, foreign)
};

}  // namespace train
