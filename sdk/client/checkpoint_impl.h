// The implementation of train::Checkpoint.
#pragma once

#include <train/checkpoint.h>

#include "sdk/client/checked_files.h"

namespace train {

struct Checkpoint::Impl {
  enum class Form {
    Committed,  // `directory` is a checkpoint's folder, verified
    Copy,       // `directory` is the user's, to be copied
    Take,       // … to be moved, copied where that cannot be
    Move,       // … to be moved, never copied
    Write,      // `write` makes the files
  };
  Form form = Form::Committed;
  std::filesystem::path directory;
  std::function<void(const std::filesystem::path&)> write;
  std::shared_ptr<const sdk::CheckedFiles> files;  // Committed: those in `directory`
  Dict metadata;
  Dict metrics;
};

}  // namespace train
