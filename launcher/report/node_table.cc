#include "launcher/report/node_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/report/text_table.h"
#include "lib/base/json_text.h"
#include "lib/base/size_text.h"
#include "lib/base/terminal_text.h"

namespace train {
namespace {

constexpr std::size_t kShownMax = 200;

std::string shown(std::string_view text) { return terminal_safe(text.substr(0, kShownMax)); }

std::string of(double free, double total) { return fmt::format("{:.6g} of {:.6g}", free, total); }

std::string memory_of(const NodeRow& row) {
  return fmt::format("{} of {}", size_text(row.free.memory_bytes),
                     size_text(row.total.memory_bytes));
}

std::string state_of(const NodeRow& row) {
  if (!row.answered) return "no answer";
  if (row.draining) return "draining";
  const bool used = row.free.cpu < row.total.cpu || row.free.gpu < row.total.gpu ||
                    row.free.memory_bytes < row.total.memory_bytes;
  return used ? "in use" : "free";
}

TableCells cells_of(const NodeRow& row) {
  if (!row.answered) return {shown(row.address), state_of(row)};
  TableCells cells{shown(row.address == row.name ? row.name : row.name + " (" + row.address + ")"),
                   state_of(row), of(row.free.cpu, row.total.cpu), of(row.free.gpu, row.total.gpu),
                   memory_of(row)};
  if (row.sample && row.sample->load_hundredths >= 0)
    cells.push_back(fmt::format("{:.2f}", static_cast<double>(row.sample->load_hundredths) / 100));
  else
    cells.push_back("-");
  if (row.sample && row.sample->spool_free_bytes >= 0)
    cells.push_back(size_text(static_cast<std::uint64_t>(row.sample->spool_free_bytes)));
  else
    cells.push_back("-");
  cells.push_back(shown(row.build));
  return cells;
}

std::string describe(const PoolRun& run) {
  return run.owner.empty() ? run.run_name : fmt::format("{} ({})", run.run_name, run.owner);
}

/// Return what somebody should look at: "n1: GPU 0: lost".
std::vector<std::string> remarks_on(const NodeRow& row, const std::string& build) {
  std::vector<std::string> remarks;
  if (row.problem) remarks.push_back(problem_text(row));
  if (!row.answered) return remarks;
  if (row.draining)
    remarks.push_back(row.draining_because.empty() ? "draining"
                                                   : "draining: " + row.draining_because);
  std::string labels;
  for (const auto& [name, value] : row.labels)
    labels += fmt::format("{}{}={}", labels.empty() ? "labels: " : ", ", name, value);
  if (!labels.empty()) remarks.push_back(std::move(labels));
  std::string runs;
  for (const PoolRun& run : row.runs)
    if (run.claimed != Resources{})
      runs += fmt::format("{}{}", runs.empty() ? "in use by " : ", ", describe(run));
  if (!runs.empty()) remarks.push_back(std::move(runs));
  if (row.build != build) remarks.push_back(fmt::format("version {}, not {}", row.build, build));
  for (const GpuSample& gpu : row.gpus) {
    if (gpu.state != "ok") remarks.push_back(fmt::format("GPU {}: {}", gpu.gpu, gpu.state));
    if (gpu.last_xid != 0)
      remarks.push_back(fmt::format("GPU {}: Xid {}, {} in all", gpu.gpu, gpu.last_xid, gpu.xids));
    if (!gpu.foreign.empty())
      remarks.push_back(fmt::format("GPU {}: in use by {}", gpu.gpu, gpu.foreign));
  }
  return remarks;
}

void put_known(JsonWriter& json, const char* key, std::int64_t value) {
  if (value != kNotKnown) json.member(key, value);
}

void put_amounts(JsonWriter& json, const char* key, const Resources& resources) {
  json.key(key).object();
  json.member("CPU", resources.cpu).member("GPU", resources.gpu);
  json.member("memory", resources.memory_bytes);
  for (const auto& [name, value] : resources.custom) json.member(name, value);
  json.end();
}

void put_gpu(JsonWriter& json, const GpuSample& gpu) {
  json.object().member("gpu", gpu.gpu).member("name", gpu.name).member("state", gpu.state);
  put_known(json, "use_percent", gpu.use_percent);
  put_known(json, "memory_bytes", gpu.memory_bytes);
  put_known(json, "memory_used_bytes", gpu.memory_used_bytes);
  put_known(json, "temperature_c", gpu.temperature_c);
  if (gpu.last_xid != 0) json.member("last_xid", gpu.last_xid);
  if (!gpu.foreign.empty()) json.member("in_use_by", gpu.foreign);
  json.end();
}

void put_answer(JsonWriter& json, const NodeRow& row) {
  json.member("name", row.name).member("version", row.build);
  json.key("addresses").array();
  for (const std::string& address : row.addresses) json.value(address);
  json.end();
  put_amounts(json, "total", row.total);
  put_amounts(json, "free", row.free);
  json.key("labels").object();
  for (const auto& [name, value] : row.labels) json.member(name, value);
  json.end();
  json.member("draining", row.draining);
  if (!row.draining_because.empty()) json.member("draining_because", row.draining_because);
  if (row.sample) {
    if (row.sample->load_hundredths != kNotKnown)
      json.member("load", static_cast<double>(row.sample->load_hundredths) / 100);
    put_known(json, "memory_used_bytes", row.sample->memory_used_bytes);
    put_known(json, "spool_free_bytes", row.sample->spool_free_bytes);
  }
  json.key("gpus").array();
  for (const GpuSample& gpu : row.gpus) put_gpu(json, gpu);
  json.end();
  json.key("runs").array();
  for (const PoolRun& run : row.runs) {
    if (run.claimed == Resources{}) continue;
    json.object().member("run", run.run_name).member("owner", run.owner);
    put_amounts(json, "claimed", run.claimed);
    json.end();
  }
  json.end();
}

}  // namespace

std::string problem_text(const NodeRow& row) {
  if (!row.problem) return "no answer";
  std::string text = row.problem->message;
  if (text.starts_with(row.address + ": ")) text.erase(0, row.address.size() + 2);
  return row.problem->hint.empty() ? text : text + "; " + row.problem->hint;
}

std::string nodes_text(const std::vector<NodeRow>& rows, const std::string& build) {
  if (rows.empty()) return "";
  std::vector<TableCells> lines{
      {"node", "state", "free cores", "free GPUs", "free memory", "load", "free disk", "version"}};
  for (const NodeRow& row : rows) lines.push_back(cells_of(row));
  std::string text = table_text(lines);
  for (const NodeRow& row : rows)
    for (const std::string& remark : remarks_on(row, build))
      text += fmt::format("{}: {}\n", shown(row.answered ? row.name : row.address),
                          terminal_safe(remark));
  return text;
}

std::string nodes_json(const std::vector<NodeRow>& rows) {
  JsonWriter json;
  json.object().key("nodes").array();
  for (const NodeRow& row : rows) {
    json.object().member("address", row.address).member("answered", row.answered);
    if (row.problem) {
      json.member("problem", row.problem->message);
      if (!row.problem->hint.empty()) json.member("hint", row.problem->hint);
    }
    if (row.answered) put_answer(json, row);
    json.end();
  }
  json.end().end();
  return std::move(json).take();
}

}  // namespace train
