#include <train/torch_zero.h>

#include <cmath>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <unordered_set>

#include "sdk/client/progress.h"
#include "sdk/client/session.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/gradient_lists.h"
#include "sdk/torch/shard_plan.h"
#include "sdk/torch/sharded_parameter.h"

namespace train {
namespace {

using torch::optim::OptimizerParamGroup;

constexpr std::size_t kBroadcastBytesMax = 25 << 20;  // small parameters travel together

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  sdk::raise(Error{Errc::InvalidArgument, "train::ZeroOptimizer: " + what, hint});
}

}  // namespace

ZeroOptimizerBase::ZeroOptimizerBase(const std::vector<OptimizerParamGroup>& groups,
                                     std::unique_ptr<torch::optim::OptimizerOptions> defaults)
    : Optimizer(groups, std::move(defaults)) {
  if (sdk::any_pieces(sdk::parameters_of(*this)))
    refuse("its parameters are those of a sharded model, whose state is divided already",
           "use the optimizer itself");
  std::unordered_set<const at::TensorImpl*> seen;
  std::vector<std::uint64_t> bytes;
  for (const torch::Tensor& parameter : sdk::parameters_of(*this)) {
    if (!seen.insert(parameter.unsafeGetTensorImpl()).second)
      refuse("a parameter is there twice",
             "LibTorch lists a tied parameter under each of its "
             "names: give it once");
    bytes.push_back(parameter.nbytes());
  }
  owners_ = sdk::deal_out(bytes, sdk::worker_info().world_size);
}

std::vector<OptimizerParamGroup> ZeroOptimizerBase::own_groups() const {
  std::vector<OptimizerParamGroup> own;
  std::size_t index = 0;
  for (const OptimizerParamGroup& group : param_groups()) {
    std::vector<torch::Tensor> parameters;
    for (const torch::Tensor& parameter : group.params())
      if (owners_[index++] == sdk::worker_info().rank) parameters.push_back(parameter);
    own.emplace_back(std::move(parameters), group.options().clone());
  }
  return own;
}

void ZeroOptimizerBase::check_groups() const {
  if (sdk::parameters_of(*this).size() == owners_.size() &&
      param_groups().size() == local_->param_groups().size())
    return;
  refuse("parameters were added after it was made", "make it anew with all parameters");
}

torch::Tensor ZeroOptimizerBase::step(LossClosure closure) {
  check_groups();
  torch::Tensor loss;
  if (closure != nullptr) {
    const at::AutoGradMode record(true);
    loss = closure();
  }
  for (std::size_t i = 0; i < param_groups().size(); ++i)  // a schedule may have changed them
    local_->param_groups()[i].set_options(param_groups()[i].options().clone());
  local_->step();
  const auto group = process_group();
  if (!group) return loss;
  const sdk::InPhase waiting(Phase::Collective, "train::ZeroOptimizer");
  sdk::guarded("broadcasting updated parameters", [&] {
    const auto parameters = sdk::parameters_of(*this);
    for (int rank = 0; rank < group->getSize(); ++rank) {
      std::vector<at::Tensor> of_rank;
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (owners_[i] == rank) of_rank.push_back(parameters[i].detach());
      if (!of_rank.empty()) c10d::broadcast_coalesced(group, of_rank, kBroadcastBytesMax, rank);
    }
  });
  return loss;
}

void ZeroOptimizerBase::save(torch::serialize::OutputArchive&) const {
  refuse("an archive would hold the state of this rank only", "use train::Checkpoint::from_state");
}
void ZeroOptimizerBase::load(torch::serialize::InputArchive&) {
  refuse("an archive would hold the state of one rank only", "use train::Checkpoint::load");
}

// ---- state

const ShardedState& ZeroOptimizerBase::sharded_state() {
  check_groups();
  const torch::NoGradGuard no_grad;
  sharded_ = ShardedState();
  steps_.clear();
  std::size_t index = 0;
  for (const OptimizerParamGroup& group : param_groups()) {
    const bool amsgrad = numbers_of(group.options()).amsgrad;
    for (const torch::Tensor& parameter : group.params()) {
      const std::string prefix = std::to_string(index) + ".";
      if (owners_[index++] != sdk::worker_info().rank) continue;
      const Moments of = moments(parameter, amsgrad);
      const std::vector<std::int64_t> shape = parameter.sizes().vec(), begin(shape.size());
      sharded_.piece(prefix + "exp_avg", of.exp_avg, shape, begin);
      sharded_.piece(prefix + "exp_avg_sq", of.exp_avg_sq, shape, begin);
      if (amsgrad) sharded_.piece(prefix + "max_exp_avg_sq", of.max_exp_avg_sq, shape, begin);
      steps_.emplace_back(parameter, torch::full({1}, of.step, torch::kInt64));
      sharded_.piece(prefix + "step", steps_.back().second, {1}, {0});
    }
  }
  return sharded_;
}

std::string ZeroOptimizerBase::Options::kind() const {
  return "ZeroOptimizer<" + of_->name() + ">";
}

Dict ZeroOptimizerBase::Options::state() const {
  List groups;
  for (const OptimizerParamGroup& group : of_->param_groups()) {
    const Numbers of = of_->numbers_of(group.options());
    groups.emplace_back(Dict{{"lr", of.lr},
                             {"betas", List{of.beta1, of.beta2}},
                             {"eps", of.eps},
                             {"weight_decay", of.weight_decay},
                             {"amsgrad", of.amsgrad},
                             {"parameters", group.params().size()}});
  }
  return {{"groups", std::move(groups)}};
}

void ZeroOptimizerBase::Options::load_state(const Dict& state) {
  const auto groups = Config(state).get<List>("groups");
  auto& mine = of_->param_groups();
  if (groups.size() != mine.size())
    refuse("it was saved with " + std::to_string(groups.size()) + " groups, and has " +
               std::to_string(mine.size()),
           "make it over the same groups");
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const Config said(groups[i].as<Dict>());
    const auto betas = said.get<std::vector<double>>("betas");
    if (betas.size() != 2 || said.get<std::size_t>("parameters") != mine[i].params().size())
      refuse("group " + std::to_string(i) + " was saved with other parameters",
             "make it over the same groups");
    const Numbers numbers{said.get<double>("lr"),
                          betas[0],
                          betas[1],
                          said.get<double>("eps"),
                          said.get<double>("weight_decay"),
                          said.get<bool>("amsgrad")};
    if (numbers.amsgrad != of_->numbers_of(mine[i].options()).amsgrad)
      refuse("group " + std::to_string(i) + " was saved with another amsgrad",
             "make it with the same amsgrad");
    options.push_back(of_->options_of(numbers));
  }
  constexpr std::int64_t kStepsMax = std::int64_t{1} << 53;
  for (const auto& [parameter, step] : of_->steps_) {
    const auto count = step.item<std::int64_t>();
    if (count < 0 || count > kStepsMax)
      sdk::raise(Error{Errc::Corrupt, "the \"step\" of an optimizer is not a count"});
  }
  for (std::size_t i = 0; i < options.size(); ++i) mine[i].set_options(std::move(options[i]));
  for (const auto& [parameter, step] : of_->steps_)
    of_->set_step(parameter, step.item<std::int64_t>());
}

void collect_state(StateRefs& refs, ZeroOptimizerBase& optimizer) {
  refs.sharded.push_back(&optimizer.sharded_state());
  refs.stateful.push_back(&optimizer.options_);
}

}  // namespace train
