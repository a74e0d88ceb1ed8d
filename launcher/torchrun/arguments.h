// torchrun's command line as argparse reads it: torch/distributed/run.py of PyTorch 2.11, with the
// variables PET_*. Options of train-run's own may stand among torchrun's. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

class TorchrunArguments {
 public:
  /// Read the words after "torchrun". The variables supply options that the words leave out.
  /// InvalidArgument: what is wrong, as far as one option alone shows it.
  static Result<TorchrunArguments> parse(const std::vector<std::string>& words,
                                         const std::map<std::string, std::string>& environment);

  /// Return whether words or a variable give the option, by its name: "nproc-per-node".
  bool given(std::string_view option) const { return values_.contains(option); }
  /// Return its value, or its default.
  std::string text(std::string_view option) const;
  /// Return whether a flag is set.
  bool flag(std::string_view option) const { return values_.contains(option); }

  bool help() const { return help_; }
  /// Return the values of --set, in their order.
  const std::vector<std::string>& overrides() const { return overrides_; }
  const std::string& script() const { return script_; }
  const std::vector<std::string>& script_arguments() const { return script_arguments_; }

 private:
  Result<Unit> take_variables(const std::map<std::string, std::string>& environment);
  Result<Unit> take_words(const std::vector<std::string>& words);

  std::map<std::string, std::string, std::less<>> values_;  // by name
  std::vector<std::string> overrides_;
  std::string script_;
  std::vector<std::string> script_arguments_;
  bool help_ = false;
};

/// Return the text of `train-run torchrun --help`.
std::string torchrun_help();

}  // namespace train
