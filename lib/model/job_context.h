// What all workers of an attempt learn about their run: the launcher writes it, supervisors pass it
// on, and the SDK reads it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/model/fields.h"

namespace train {

struct JobContext {
  std::string run_id = {}, run_name = {};
  std::string config_json = {}, metadata_json = {}, datasets_json = {};
  std::string master_addr = {};
  std::uint32_t master_port = 0;     // 0: the workers do not meet
  std::string collectives = "auto";  // auto | gloo | nccl
  std::int64_t collective_timeout_ms = 1800000;
  std::string restore_dir = {};      // the checkpoint to start from; empty: none
  std::int64_t restored_epoch = -1;  // the `epoch` reported with it; −1: none
  // report() returns while fewer of the rank's reports are unacknowledged; 0: it waits for none.
  std::uint32_t report_window = 0;
  bool keeps_workers = false;  // a process whose loop has returned waits for the next run
  bool operator==(const JobContext&) const = default;
  TRAIN_FIELDS(run_id, run_name, config_json, metadata_json, datasets_json, master_addr,
               master_port, collectives, collective_timeout_ms, restore_dir, restored_epoch,
               report_window, keeps_workers)
};

}  // namespace train
