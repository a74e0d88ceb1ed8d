#include "sdk/torch/shard_units.h"

#include <cstdint>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "sdk/torch/failure.h"

namespace train::sdk {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  raise(Error{Errc::InvalidArgument, what, hint});
}

class Finder {
 public:
  explicit Finder(torch::nn::Module& module) { visit(module, "", 0); }
  FoundModel found() && { return std::move(found_); }

 private:
  void visit(torch::nn::Module& module, const std::string& prefix, std::size_t unit) {
    for (const auto& item : module.named_parameters(/*recurse=*/false)) {
      const auto [at, is_new] =
          index_.emplace(item.value().unsafeGetTensorImpl(), found_.parameters.size());
      if (is_new)
        found_.parameters.push_back({prefix + item.key(), item.value(), unit});
      else if (found_.parameters[at->second].unit != unit)
        found_.parameters[at->second].unit = 0;  // two units use it
    }
    for (const auto& item : module.named_children())
      visit(*item.value(), prefix + item.key() + ".", unit_of(*item.value(), unit));
  }
  std::size_t unit_of(torch::nn::Module& module, std::size_t outer) {
    auto* base = dynamic_cast<detail::ShardUnitBase*>(&module);
    if (base == nullptr) return outer;
    const auto [at, is_new] = unit_of_.emplace(base, found_.units.size() + 1);
    if (is_new) found_.units.push_back(base);
    found_.outer.insert(outer);
    return at->second;
  }

  FoundModel found_;
  std::unordered_map<const at::TensorImpl*, std::size_t> index_;
  std::unordered_map<const detail::ShardUnitBase*, std::size_t> unit_of_;
};

std::int64_t fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return static_cast<std::int64_t>(hash >> 1);
}

std::string text_of(const FullyShardOptions& options) {
  const auto type = [](const std::optional<torch::Dtype>& maybe) {
    return maybe ? torch::toString(*maybe) : "none";
  };
  std::ostringstream text;
  text << options.reshard_after_forward << options.prefetch << options.broadcast_buffers << " "
       << type(options.param_type) << " " << type(options.reduce_type);
  return text.str();
}

std::string text_of(const FoundParameter& parameter) {
  std::ostringstream text;
  text << parameter.name << " " << parameter.tensor.sizes() << parameter.tensor.scalar_type()
       << parameter.tensor.requires_grad() << parameter.unit;
  return text.str();
}

/// Return the least and the largest of each number over all ranks.
std::pair<at::Tensor, at::Tensor> range_over_ranks(const std::vector<std::int64_t>& numbers,
                                                   c10d::ProcessGroup& group) {
  std::vector<at::Tensor> all{torch::tensor(numbers, torch::kInt64).to(device())};
  all.push_back(-all[0]);
  for (at::Tensor& each : all) {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    std::vector<at::Tensor> one{each};
    group.allreduce(one, options)->wait();
  }
  return {(-all[1]).cpu(), all[0].cpu()};
}

}  // namespace

FoundModel find_units(torch::nn::Module& module) { return Finder(module).found(); }

void compare_ranks(const FoundModel& model, const FullyShardOptions& options,
                   c10d::ProcessGroup& group) {
  const auto count = static_cast<std::int64_t>(model.parameters.size());
  const auto [fewest, most] = range_over_ranks({count, fingerprint(text_of(options))}, group);
  const auto few = fewest[0].item<std::int64_t>(), many = most[0].item<std::int64_t>();
  const std::string hint = "build the same model, with the same options, on every rank";
  if (few != many) {
    refuse("the ranks' models differ: one has " + std::to_string(few) + " parameters, another " +
               std::to_string(many),
           hint);
  }
  if (!torch::equal(fewest, most)) refuse("the ranks differ in the options", hint);
  std::vector<std::int64_t> prints;
  for (const FoundParameter& each : model.parameters) prints.push_back(fingerprint(text_of(each)));
  const auto [least, largest] = range_over_ranks(prints, group);
  for (std::int64_t i = 0; i < count; ++i) {
    if (least[i].item<std::int64_t>() == largest[i].item<std::int64_t>()) continue;
    refuse("the ranks differ in the parameter \"" +
               model.parameters[static_cast<std::size_t>(i)].name +
               "\": its name, shape, type or unit, or whether it needs a gradient",
           hint);
  }
}

}  // namespace train::sdk
