// train-data: carries out what `train-run data …` asks for. It is a program of its own because it
// links Arrow, which train-run does not. train-run becomes this program; the request, a JSON
// object, is on stdin, so that its texts are in no list of processes. It prints as train-run.
#include <arrow/compute/initialize.h>
#include <fmt/format.h>
#include <train/config.h>
#include <unistd.h>

#include <optional>
#include <utility>

#include "cmd/exit_code_of.h"
#include "cmd/train-data/bench.h"
#include "cmd/train-data/convert.h"
#include "cmd/train-data/datasets.h"
#include "cmd/train-data/inspect.h"
#include "cmd/train-data/plan.h"
#include "lib/base/print.h"
#include "lib/base/secrets.h"
#include "lib/base/size_text.h"
#include "lib/data/arrow_error.h"

namespace train {
namespace {

constexpr const char* kProgram = "train-run";  // whose command this is

int failed(const Error& error) {
  print_error(kProgram, error);
  return exit_code_of(error);
}

Result<Dict> read_request() {
  std::string text;
  char buffer[64 << 10];
  for (;;) {
    const ssize_t size = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (size < 0) return system_error(errno, "reading the request");
    if (size == 0) break;
    text.append(buffer, static_cast<std::size_t>(size));
  }
  try {
    return parse_json(text).as<Dict>();
  } catch (const Failure& why) {
    return Error{Errc::InvalidArgument, fmt::format("no request on stdin: {}", why.what()),
                 "train-run data … starts this program"};
  }
}

/// Return the datasets of a mix, with their weights; none if it is no mix.
Dict mixed_in(const Value& entry) {
  return entry.is_dict() ? Config(entry.as<Dict>()).get<Dict>("mix", Dict()) : Dict();
}

std::string mix_text(const std::string& name, const Dict& mix) {
  double sum = 0;
  for (const auto& [of, weight] : mix) sum += weight.as<double>();
  std::string text = fmt::format("dataset {}: a mix of", name);
  for (const auto& [of, weight] : mix)
    text += fmt::format("{} {:.3g} % {}", text.ends_with("of") ? "" : ",",
                        100 * weight.as<double>() / sum, of);
  return text + "\n";
}

/// Show each dataset: as text, or all of them as one JSON object.
template <class Look>
int show_datasets(const Config& request, const Look& look) {
  const bool json = request.get<bool>("json");
  List all;
  int code = exit_code::kOk;
  bool first = true;
  for (const auto& [name, entry] : request.get<Dict>("datasets")) {
    if (!json && !std::exchange(first, false)) print_out("\n");
    if (const Dict mix = mixed_in(entry); !mix.empty()) {  // its datasets are shown themselves
      if (!json) print_out("{}", Lines{mix_text(name, mix)});
      all.push_back(Dict{{"name", name}, {"mix", mix}});
      continue;
    }
    auto shown = look(name, entry, json);
    if (shown.has_error()) {
      flush_out();
      code = failed(std::move(shown).error().with_context(fmt::format("dataset '{}'", name)));
    } else {
      if (shown->error) {
        flush_out();
        code = failed(Error(*shown->error).with_context(fmt::format("dataset '{}'", name)));
      }
      all.push_back(std::move(shown->json));
    }
  }
  if (json) print_json(to_json(Dict{{"datasets", std::move(all)}}));
  return code;
}

struct Shown {
  Value json = {};
  std::optional<Error> error = {};
};

int inspect_command(const Config& request) {
  const auto rows = request.get<std::int64_t>("rows");
  return show_datasets(
      request, [&](const std::string& name, const Value& entry, bool json) -> Result<Shown> {
        TRY(const Inspection inspection, inspect(name, entry, rows));
        if (json) return Shown{inspection_json(inspection), inspection.error};
        print_out("{}", Lines{inspection_text(inspection)});
        return Shown{{}, inspection.error};
      });
}

int plan_command(const Config& request) {
  const PlanOptions options{.workers = request.get<int>("workers"),
                            .batch_size = request.get<std::int64_t>("batch_size")};
  return show_datasets(
      request, [&](const std::string& name, const Value& entry, bool json) -> Result<Shown> {
        TRY(const DatasetPlan plan, plan_dataset(name, entry, options));
        if (json) return Shown{plan_json(plan), {}};
        print_out("{}", Lines{plan_text(plan)});
        return Shown{};
      });
}

int bench_command(const Config& request) {
  const BenchOptions options{.seconds = request.get<double>("seconds"),
                             .workers = request.get<int>("workers"),
                             .batch_size = request.get<std::int64_t>("batch_size")};
  return show_datasets(
      request, [&](const std::string& name, const Value& entry, bool json) -> Result<Shown> {
        TRY(const Benched benched, bench_dataset(name, entry, options));
        if (json) return Shown{bench_json(benched), {}};
        print_out("{}", Lines{bench_text(benched)});
        flush_out();
        return Shown{};
      });
}

int convert_command(const Config& request) {
  const auto seed = request.get<Value>("shuffle");
  auto converted =
      convert({.dataset = request.get<Value>("dataset"),
               .to = request.get<std::string>("to"),
               .rows_per_file = request.get<std::int64_t>("rows_per_file"),
               .shuffle = seed.is_null() ? std::nullopt : std::optional(seed.as<std::int64_t>()),
               .window_bytes = request.get<std::int64_t>("window"),
               .folder = request.get<std::string>("folder")});
  if (converted.has_error()) return failed(converted.error());
  const std::int64_t written = converted->files - converted->files_before;
  print_out("wrote {} of {}, {}, into {}: {} in all\n", written, counted(converted->files, "file"),
            size_text(static_cast<std::uint64_t>(converted->bytes)),
            request.get<std::string>("folder"), counted(converted->rows, "row"));
  return exit_code::kOk;
}

int carry_out(const Config& request) {
  const auto command = request.get<std::string>("command");
  if (command == "inspect") return inspect_command(request);
  if (command == "plan") return plan_command(request);
  if (command == "bench") return bench_command(request);
  if (command == "convert") return convert_command(request);
  return failed({Errc::Internal, fmt::format("train-data has no command '{}'", command)});
}

}  // namespace
}  // namespace train

int main() {
  train::hold_standard_streams();
  train::learn_own_secrets();
  const auto request = train::read_request();
  if (request.has_error()) return train::failed(request.error());
  if (const arrow::Status ready = arrow::compute::Initialize(); !ready.ok())
    return train::failed(train::data::error_from(ready, "cannot set up Arrow"));
  try {
    return train::finish_output(train::carry_out(train::Config(*request)));
  } catch (const train::Failure& why) {
    return train::failed({train::errc_of(why.kind()), why.what()});
  } catch (const std::bad_alloc&) {
    return train::failed({train::Errc::ResourceExhausted, "no memory is left"});
  }
}
