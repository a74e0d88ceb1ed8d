// stacks: asks the train-run that controls a run for the stacks of its workers, through the run's
// folder, and prints what it writes there.
#include "cmd/train-run/ask_run.h"
#include "cmd/train-run/commands.h"
#include "cmd/train-run/run_life.h"
#include "lib/base/print.h"
#include "lib/base/text_file.h"

namespace train {
namespace {

constexpr std::size_t kShownWholeMax = 4;  // ranks; of more, the classes suffice

int show(const std::string& text_path, const StacksCommand& options, std::size_t ranks) {
  if (options.json) {
    print_lines(read_text(json_beside(text_path)));
    return 0;
  }
  const std::string text = read_text(text_path);
  const std::size_t classes_end = text.find("\n\n");
  const bool whole =
      options.all_threads || (ranks > 0 && ranks <= kShownWholeMax) || classes_end == text.npos;
  print_lines(whole ? text : text.substr(0, classes_end + 1));
  if (!whole) print_out("all threads: {}\n", text_path);
  return 0;
}

}  // namespace

int stacks_command(const RunReference& reference, const StacksCommand& options) {
  const auto ranks = named_ranks(options.ranks);
  if (!ranks) {
    print_error(ranks.error());
    return exit_code::kUsage;
  }
  const auto folder = folder_to_ask(reference);
  if (!folder) return not_answered(folder.error());
  const auto path = ask_for_stacks(*folder, *ranks);
  if (!path) return not_answered(path.error());
  return show(*path, options, ranks->size());
}

}  // namespace train
