// init: writes a first spec.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/parse_job.h"
#include "daemon/devices/node_inventory.h"
#include "launcher/bundle/new_file.h"
#include "launcher/spec/starter_spec.h"
#include "launcher/torchrun/arguments.h"
#include "launcher/torchrun/launch.h"
#include "lib/base/print.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

constexpr int kWorkersWithoutGpus = 2;

/// Return the spec of a program: an executable, or a Python script.
StarterSpec of_program(const std::vector<std::string>& words, int gpus) {
  StarterSpec starter;
  starter.num_workers = gpus > 0 ? gpus : kWorkersWithoutGpus;
  starter.use_gpu = gpus > 0;
  if (words.empty()) return starter;
  starter.python = words[0].ends_with(".py");
  if (starter.python) starter.command = {"python3", "-u"};
  starter.command.insert(starter.command.end(), words.begin(), words.end());
  std::error_code ec;
  std::string& program = starter.command.front();
  if (!starter.python && program.find('/') == std::string::npos &&
      std::filesystem::is_regular_file(program, ec))
    program.insert(0, "./");  // else it would be looked for in PATH
  return starter;
}

/// Return the spec that a torchrun command line stands for.
Result<StarterSpec> of_torchrun(const std::vector<std::string>& words, int gpus) {
  const auto environment = submitters_environment();
  TRY(const auto arguments, TorchrunArguments::parse(words, environment));
  if (arguments.help())
    return Error{Errc::InvalidArgument, "torchrun: the script is missing",
                 "train-run torchrun --help shows the options"};
  TRY(auto launch,
      torchrun_launch(arguments,
                      {.cpus = static_cast<int>(std::max(1l, ::sysconf(_SC_NPROCESSORS_ONLN))),
                       .gpus = gpus,
                       .hosts = 0,
                       .environment = environment}));
  StarterSpec starter;
  starter.python = !arguments.flag("no-python");
  starter.command = std::move(launch.command);
  starter.values = std::move(launch.overrides);
  starter.made_from = fmt::format("torchrun {}", fmt::join(words, " "));
  return starter;
}

Result<Unit> write_new(const std::string& path, std::string_view text) {
  TRY(NewFile file, NewFile::create(path));
  TRY_VOID(write_all(file.fd(), text, path));
  return file.publish();
}

}  // namespace

int init_command(const std::string& path, const std::vector<std::string>& words) {
  const int gpus = static_cast<int>(read_node_inventory().amounts.gpu);
  StarterSpec starter;
  if (!words.empty() && words[0] == "torchrun") {
    auto of_line = of_torchrun({words.begin() + 1, words.end()}, gpus);
    if (!of_line) {
      print_error(of_line.error());
      return exit_code::kUsage;
    }
    starter = std::move(*of_line);
  } else {
    starter = of_program(words, gpus);
  }
  const std::string text = starter_spec(starter);
  SpecSource source;
  source.path = path;
  source.environment = submitters_environment();
  source.home = "/";
  // A program's words may be what no spec can hold.
  if (const auto parsed = parse_job_spec_text(text, source);
      const auto* mistakes = std::get_if<std::string>(&parsed)) {
    print_err("{}", Lines{*mistakes});
    return exit_code::kUsage;
  }
  if (const auto written = write_new(path, text); !written) {
    Error error = written.error();
    if (error.code == Errc::AlreadyExists)
      error = {Errc::AlreadyExists, fmt::format("'{}' exists, and is not overwritten", path),
               "name another file by -o"};
    print_error(error);
    return exit_code_of(error, exit_code::kUsage);
  }
  print_out("wrote {0}\ncheck it with `train-run validate {0}`, run it with `train-run {0}`\n",
            path);
  return 0;
}

}  // namespace train
