// data …: commands about datasets. train-data carries them out, as it links Arrow: this process
// reads the spec, and becomes that program.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/mman.h>
#include <unistd.h>

#include <boost/json.hpp>

#include "cmd/train-run/commands.h"
#include "cmd/train-run/parse_job.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/helper_program.h"
#include "lib/base/print.h"
#include "lib/base/write_all.h"
#include "lib/yaml/nearest.h"

namespace train {
namespace {

namespace json = boost::json;

int failed(const Error& error) {
  print_error(error);
  return exit_code_of(error);
}

/// Make the request this process's stdin, and become train-data.
Result<Unit> become_train_data(const json::object& request) {
  const std::string program = find_helper_program("train-data");
  if (program.empty())
    return Error{Errc::Unavailable, "the program train-data is missing",
                 "install it in libexec/trainrun, beside the folder of train-run"};
  const FileDescriptor file(::memfd_create("request", MFD_CLOEXEC));
  if (file.get() < 0) return system_error(errno, "making a file in memory");
  TRY_VOID(write_all(file.get(), json::serialize(request), "the request"));
  if (::lseek(file.get(), 0, SEEK_SET) != 0 || ::dup2(file.get(), STDIN_FILENO) < 0)
    return system_error(errno, "passing the request on");
  flush_out();
  std::string name = "train-data";
  char* arguments[] = {name.data(), nullptr};
  ::execv(program.c_str(), arguments);
  return system_error(errno, "starting " + program);
}

/// Return the datasets that a command is about, as workers get them.
Result<json::object> wanted_datasets(const DataCommand& options, const JobSpec& spec) {
  json::object datasets = datasets_json(spec);
  if (datasets.empty())
    return Error{Errc::NotFound, fmt::format("{} has no datasets", options.job.path),
                 "add them under `datasets`"};
  if (options.dataset.empty()) return datasets;
  if (const auto found = datasets.find(options.dataset); found != datasets.end())
    return json::object{{found->key(), found->value()}};
  std::vector<std::string_view> names;
  for (const auto& entry : datasets) names.push_back(entry.key());
  const std::string_view near = yaml::nearest(options.dataset, names);
  return Error{Errc::NotFound,
               fmt::format("{} has no dataset '{}'", options.job.path, options.dataset),
               near.empty() ? fmt::format("it has {}", fmt::join(names, ", "))
                            : fmt::format("did you mean {}?", near)};
}

/// Return what a spec would have of the dataset that is converted.
Result<json::object> dataset_of(const ConvertCommand& options) {
  json::object schema;
  for (const std::string& text : options.schema) {
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
      return Error{Errc::InvalidArgument, fmt::format("--schema is '{}'", text),
                   "write COLUMN=TYPE, such as zip=string"};
    schema[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return json::object{{"format", options.format},
                      {"path", json::array(options.sources.begin(), options.sources.end())},
                      {"columns", json::array(options.columns.begin(), options.columns.end())},
                      {"schema", std::move(schema)},
                      {"delimiter", options.delimiter},
                      {"newlines_in_values", options.newlines_in_values},
                      {"labels", options.labels},
                      {"include_paths", options.include_paths},
                      {"filter", options.filter},
                      {"limit", options.limit}};
}

int show_datasets(const DataCommand& options, json::object request) {
  SpecSource source;
  const auto parsed = parse_job(options.job, &source);
  if (!parsed) return exit_code::kBadSpec;
  auto datasets = wanted_datasets(options, parsed->spec);
  if (datasets.has_error()) return failed(datasets.error());
  request["datasets"] = std::move(*datasets);
  request["json"] = options.output == "json";
  return failed(become_train_data(request).error());
}

}  // namespace

int data_inspect_command(const DataCommand& options) {
  return show_datasets(options, {{"command", "inspect"}, {"rows", options.rows}});
}

int data_plan_command(const DataCommand& options) {
  return show_datasets(
      options,
      {{"command", "plan"}, {"workers", options.workers}, {"batch_size", options.batch_size}});
}

int data_bench_command(const DataCommand& options) {
  return show_datasets(options, {{"command", "bench"},
                                 {"seconds", options.seconds},
                                 {"workers", options.workers},
                                 {"batch_size", options.batch_size}});
}

int data_convert_command(const ConvertCommand& options) {
  auto dataset = dataset_of(options);
  if (dataset.has_error()) {
    print_error(dataset.error());
    return exit_code::kUsage;
  }
  json::object request{{"command", "convert"},    {"dataset", std::move(*dataset)},
                       {"to", options.to},        {"rows_per_file", options.rows_per_file},
                       {"shuffle", nullptr},      {"window", options.window},
                       {"folder", options.folder}};
  if (options.shuffle) request["shuffle"] = *options.shuffle;
  return failed(become_train_data(request).error());
}

}  // namespace train
