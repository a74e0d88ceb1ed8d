// The implementation of train::Checkpoint.
#pragma once

#include <train/checkpoint.h>

#include "sdk/client/checked_files.h"

namespace train {

struct Checkpoint::Impl {
  enum class Form {
    Committed,  // `directory` is the folder of a committed checkpoint
    Copy,       // `directory` is the user's; copy it
    Take,       // `directory` is the user's; move it, or copy it where it cannot be moved
    Move,       // `directory` is the user's; move it, never copy it
    Write,      // `write` creates the files
  };
  Form form = Form::Committed;
  std::filesystem::path directory;
  std::function<void(const std::filesystem::path&)> write;
  std::shared_ptr<const sdk::CheckedFiles> files;  // Committed: those in `directory`
  Dict metadata;
  Dict metrics;
};

}  // namespace train
