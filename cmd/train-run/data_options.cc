#include "cmd/train-run/data_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lib/yaml/nearest.h"

namespace train {
namespace {

void add_spec_options(CLI::App* command, DataCommand& data) {
  command->add_option("spec", data.job.path, "The job's YAML file")->required();
  command
      ->add_option("--set", data.job.overrides,
                   "KEY.PATH=VALUE: override a value of the spec; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--dataset", data.dataset, "Only this dataset (default: all of the spec)");
  add_output_option(command, data.output);
  command->add_flag_callback(
      "--json", [&data] { data.output = "json"; }, "The same as --output json");
}

/// Accept these words, and suggest one of them for another.
CLI::Validator one_of(const std::vector<std::string>& words) {
  std::function<std::string(std::string&)> check = [words](const std::string& word) {
    if (std::find(words.begin(), words.end(), word) != words.end()) return std::string();
    const std::vector<std::string_view> known(words.begin(), words.end());
    const std::string_view near = yaml::nearest(word, known);
    return near.empty() ? fmt::format("'{}' is none of {}", word, fmt::join(words, ", "))
                        : fmt::format("there is no '{}': did you mean {}?", word, near);
  };
  return {std::move(check), fmt::format("{{{}}}", fmt::join(words, ","))};
}

/// What is converted: the keys of a dataset in a spec.
void add_source_options(CLI::App* command, ConvertCommand& convert) {
  command
      ->add_option("source", convert.sources,
                   "Files, folders and globs, as `path` of a dataset in a spec")
      ->required();
  command
      ->add_option("--format", convert.format,
                   "The format of the sources (default: by the endings of their names)")
      ->check(one_of({"auto", "parquet", "csv", "json", "arrow", "orc", "numpy", "cifar", "images",
                      "webdataset"}));
  command->add_option("--columns", convert.columns, "Only these columns: a,b")->delimiter(',');
  command->add_option("--filter", convert.filter, "Only rows that pass, such as 'label < 10'");
  command->add_option("--limit", convert.limit, "Only the first rows that pass")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--schema", convert.schema,
                   "COLUMN=TYPE: the type of a column of CSV or JSON; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--delimiter", convert.delimiter, "csv: what separates values (default ,)");
  command->add_flag("--newlines-in-values", convert.newlines_in_values,
                    "csv: values in quotes may have line ends");
  command->add_option("--labels", convert.labels, "cifar: 2 for CIFAR-100")
      ->check(CLI::Range(1, 2));
  command->add_flag("--include-paths", convert.include_paths, "images: with the column path");
}

void add_convert_options(CLI::App* command, ConvertCommand& convert) {
  command->add_option("--to", convert.to, "The format to write")
      ->required()
      ->check(one_of({"parquet", "webdataset", "arrow"}));
  command->add_option("--rows-per-file", convert.rows_per_file, "Rows of each file but the last")
      ->required()
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  command
      ->add_option("-o,--folder", convert.folder,
                   "The folder to fill: a new or empty one, or that of the same command before")
      ->required();
  command
      ->add_option("--shuffle", convert.shuffle,
                   "Mix the rows, by this seed: all of them where they fit into the window, or can "
                   "be read one by one; else units in random order, with their rows mixed over the "
                   "window")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--window", convert.window,
                   "How many bytes of rows are mixed at a time, such as 1GiB (default 256MiB)")
      ->transform(CLI::AsSizeValue(false));
}

}  // namespace

void add_data_commands(Commands& commands, CLI::App& app, DataOptions& options) {
  CLI::App* data =
      app.add_subcommand("data", "Look at the datasets of a job, and convert data sets");
  data->require_subcommand(1);
  data->footer(
      "Exit codes: 0 done; 2 the command line is wrong; 65 data cannot be read as the spec says; "
      "66 no such dataset or\n"
      "file; 69 train-data is not installed; 73 the folder has other contents; 74 reading or "
      "writing failed; 77 permission;\n"
      "78 the spec is wrong.");
  CLI::App* inspect =
      commands.add(*data, "inspect",
                   "Show columns, files, rows and first rows of datasets, and what is wrong with "
                   "them",
                   [&] { return data_inspect_command(options.inspect); });
  add_spec_options(inspect, options.inspect);
  inspect->add_option("--rows", options.inspect.rows, "How many rows to show (default 3)")
      ->check(CLI::Range(0, 1000));
  CLI::App* plan =
      commands.add(*data, "plan",
                   "Show what each worker reads of datasets in the first epoch, and what it holds",
                   [&] { return data_plan_command(options.plan); });
  add_spec_options(plan, options.plan);
  plan->add_option("--workers", options.plan.workers,
                   "How many workers share a dataset (default 8)")
      ->check(CLI::Range(1, 1024));
  plan->add_option("--batch-size", options.plan.batch_size,
                   "Rows a step of each worker (default 256)")
      ->check(CLI::Range(1, 1 << 24));
  CLI::App* bench = commands.add(
      *data, "bench",
      "Read datasets for some time, and show how fast each operator is: decoding, gathering, maps",
      [&] { return data_bench_command(options.bench); });
  options.bench.workers = 1;
  add_spec_options(bench, options.bench);
  bench->add_option("--seconds", options.bench.seconds, "How long, each dataset (default 10)")
      ->check(CLI::Range(0.01, 3600.0));
  bench
      ->add_option("--workers", options.bench.workers,
                   "How many workers read at the same time, on this machine (default 1)")
      ->check(CLI::Range(1, 256));
  bench->add_option("--batch-size", options.bench.batch_size, "Rows of a batch (default 256)")
      ->check(CLI::Range(1, 1 << 24));
  CLI::App* convert =
      commands.add(*data, "convert",
                   "Write rows anew, into files of equal numbers of rows. It can be stopped at any "
                   "time: the same\n"
                   "command goes on",
                   [&] { return data_convert_command(options.convert); });
  add_source_options(convert, options.convert);
  add_convert_options(convert, options.convert);
}

}  // namespace train
