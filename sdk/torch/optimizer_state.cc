#include "sdk/torch/optimizer_state.h"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <set>
#include <sstream>

#include "sdk/torch/failure.h"
#include "sdk/torch/optimizer_fields.h"
#include "sdk/torch/sharded_parameter.h"
#include "sdk/torch/sharded_state.h"

namespace train::sdk {
namespace {

using torch::optim::Optimizer;

constexpr const char* kMetadata = "trainrun_optimizer";  // in the header's metadata

std::string type_name(const Optimizer& optimizer) {
  if (dynamic_cast<const FusedAdamW*>(&optimizer) != nullptr)
    return "torch::optim::AdamW";  // its state is the same
  int failed = 0;
  char* text = abi::__cxa_demangle(typeid(optimizer).name(), nullptr, nullptr, &failed);
  std::string name = failed == 0 ? text : typeid(optimizer).name();
  std::free(text);
  return name;
}

/// Call `use` with the fields of the optimizer's type.
template <class Use>
void with_fields(const Optimizer& optimizer, Use&& use) {
  const auto tried = [&]<class Fields>(Fields fields) {
    if (dynamic_cast<const typename Fields::Optimizer*>(&optimizer) == nullptr) return false;
    use(fields);
    return true;
  };
  if (tried(SgdFields{}) || tried(AdamFields{}) || tried(AdamWFields{}) || tried(RmspropFields{}) ||
      tried(AdagradFields{}) || tried(LbfgsFields{}))
    return;
  raise(Error{
      Errc::InvalidArgument, "the state of " + type_name(optimizer) + " cannot be saved or loaded",
      "use an optimizer of torch::optim or one derived from it, or hand its tensors over in "
      "a ShardedState"});
}

// ---- numbers as JSON

struct Named {
  const char* name;
  double value;
};
constexpr std::array kNotFinite{Named{"nan", std::numeric_limits<double>::quiet_NaN()},
                                Named{"inf", std::numeric_limits<double>::infinity()},
                                Named{"-inf", -std::numeric_limits<double>::infinity()}};

Value to_value(bool flag) { return flag; }
Value to_value(std::int64_t number) { return number; }
Value to_value(const std::string& text) { return text; }
Value to_value(double number) {
  if (std::isfinite(number)) return number;
  if (std::isnan(number)) return kNotFinite[0].name;
  return kNotFinite[number > 0 ? 1 : 2].name;
}
Value to_value(const std::tuple<double, double>& pair) {
  return List{to_value(std::get<0>(pair)), to_value(std::get<1>(pair))};
}
template <class T>
Value to_value(const std::optional<T>& maybe) {
  return maybe ? to_value(*maybe) : Value();
}

void from_value(const Value& value, bool& flag) { flag = value.as<bool>(); }
void from_value(const Value& value, std::string& text) { text = value.as<std::string>(); }
void from_value(const Value& value, std::int64_t& number) {
  constexpr std::int64_t kMax = std::int64_t{1} << 53;  // all are counts, and must be able to grow
  number = value.as<std::int64_t>();
  if (number < 0 || number > kMax)
    raise(Error{Errc::Corrupt, std::to_string(number) + " is not a count"});
}
void from_value(const Value& value, double& number) {
  for (const Named& each : kNotFinite) {
    if (value == Value(each.name)) {
      number = each.value;
      return;
    }
  }
  number = value.as<double>();
}
void from_value(const Value& value, std::tuple<double, double>& pair) {
  const List list = value.as<List>();
  if (list.size() != 2)
    raise(Error{Errc::Corrupt, "expected two numbers, found " + to_json(value)});
  from_value(list[0], std::get<0>(pair));
  from_value(list[1], std::get<1>(pair));
}
template <class T>
void from_value(const Value& value, std::optional<T>& maybe) {
  maybe.reset();
  if (!value.is_null()) from_value(value, maybe.emplace());
}

// ---- writing

/// Writes numbers into JSON, and tensors into a list.
struct Writer {
  Dict& numbers;
  NamedTensors* tensors = nullptr;
  std::string prefix = {};

  void operator()(const char* name, const auto& number) { numbers[name] = to_value(number); }
  void operator()(const char* name, const torch::Tensor& tensor, Extent, bool /*needed*/) {
    if (!tensor.defined()) return;
    tensors->emplace_back(prefix + name, tensor.is_sparse() ? tensor.to_dense() : tensor);
  }
  void operator()(const char* name, const std::deque<torch::Tensor>& list, Extent extent) {
    numbers[name] = list.size();
    for (std::size_t i = 0; i < list.size(); ++i)
      (*this)((std::string(name) + "." + std::to_string(i)).c_str(), list[i], extent, true);
  }
};

std::string prefix_of(std::size_t parameter) { return std::to_string(parameter) + "."; }

// ---- reading

std::string quoted(const std::string& name) { return "\"" + name + "\""; }

/// The contents of a file with one optimizer; keeps track of the parts that were used.
class Reader {
 public:
  Reader(const CheckedFiles& checkpoint, const std::string& name, const SavedBy& by)
      : saved_(checkpoint, name, by) {
    for (const auto& [tensor, pieces] : saved_.tensors()) unused_.insert(tensor);
    const auto text = saved_.metadata().find(kMetadata);
    if (text == saved_.metadata().end()) corrupt("its header holds no \"trainrun_optimizer\"");
    said_ = as<Dict>(parsed(text->second), quoted(kMetadata));
    groups_ = as<List>(entry_of(said_, "groups", "the header"), "\"groups\"");
    states_ = as<List>(entry_of(said_, "state", "the header"), "\"state\"");
  }

  [[noreturn]] void corrupt(const std::string& why) const {
    raise(Error{Errc::Corrupt, saved_.path() + ": " + why});
  }
  void check_counts(std::size_t groups, std::size_t parameters) const {
    if (groups_.size() != groups) corrupt(count_text("groups", groups_.size(), groups));
    if (states_.size() != parameters) corrupt(count_text("parameters", states_.size(), parameters));
  }
  Dict options(std::size_t group) const {
    return as<Dict>(groups_[group], "the options of group " + std::to_string(group));
  }
  bool has_state(std::size_t parameter) const { return !states_[parameter].is_null(); }
  Dict state(std::size_t parameter) const {
    return as<Dict>(states_[parameter], "the state of parameter " + std::to_string(parameter));
  }

  /// Read the number `name` from `of` into `to`, and remove it from `of`.
  void number(Dict& of, const std::string& where, const char* name, auto& to) const {
    const Value value = entry_of(of, name, where);
    of.erase(name);
    try {
      from_value(value, to);
    } catch (const Failure& why) {
      corrupt(where + ": " + quoted(name) + ": " + why.what());
    }
  }
  void check_empty(const Dict& of, const std::string& where) const {
    if (!of.empty()) corrupt(where + " has the unexpected entry " + quoted(of.begin()->first));
  }

  /// Return the tensor `name`, or this rank's rows of it, and mark it as used; finish() fills it.
  /// Return an undefined tensor if there is none and none is needed.
  torch::Tensor tensor(const std::string& name, const torch::Tensor& parameter,
                       std::int64_t all_parameters, Extent extent, bool needed) {
    if (!unused_.contains(name)) {
      if (needed) corrupt("the tensor " + quoted(name) + " is missing");
      return {};
    }
    unused_.erase(name);
    const auto sharded = sharded_parameter(parameter);
    const SavedPiece& piece = saved_.tensors().at(name).front();
    check(piece, sharded ? sharded->shape : parameter.sizes().vec(), all_parameters, extent);
    const auto options = parameter.options().dtype(TensorReader::type(piece.entry));
    torch::Tensor tensor =
        extent == Extent::Parameter
            ? torch::empty_like(parameter, options, torch::MemoryFormat::Preserve)
            : torch::empty(piece.shape, options);
    if (extent == Extent::Parameter && sharded) {
      if (sharded->held) wanted_.piece(name, tensor, sharded->shape, sharded->offset);
    } else {
      wanted_.replicated(name, tensor);
    }
    return tensor;
  }

  void finish() {
    if (!unused_.empty()) corrupt("the tensor " + quoted(*unused_.begin()) + " is unexpected");
    saved_.load(wanted_, "optimizer");
    saved_.verify_metadata();
  }

 private:
  static std::string count_text(const char* what, std::size_t there, std::size_t here) {
    return "it holds " + std::to_string(there) + " " + what + ", the optimizer has " +
           std::to_string(here);
  }
  Value parsed(const std::string& text) const {
    try {
      return parse_json(text);
    } catch (const Failure& why) {
      corrupt(quoted(kMetadata) + ": " + why.what());
    }
  }
  template <class T>
  T as(const Value& value, const std::string& what) const {
    try {
      return value.as<T>();
    } catch (const Failure& why) {
      corrupt(what + ": " + why.what());
    }
  }
  Value entry_of(const Dict& of, const char* name, const std::string& where) const {
    const auto found = of.find(name);
    if (found == of.end()) corrupt(where + " lacks " + quoted(name));
    return found->second;
  }
  void check(const SavedPiece& piece, std::vector<std::int64_t> shape, std::int64_t all_parameters,
             Extent extent) const {
    const torch::ScalarType type = TensorReader::type(piece.entry);
    if (extent == Extent::One) shape = {};
    if (extent == Extent::AllParameters) shape = {all_parameters};
    const bool fits = extent == Extent::One ? type != torch::kBool : at::isFloatingType(type);
    if (piece.shape == shape && fits) return;
    std::ostringstream text;
    text << "the tensor " << quoted(piece.entry.name) << " is " << piece.entry.dtype << " "
         << at::IntArrayRef(piece.shape) << ", expected "
         << (extent == Extent::One ? "a number" : "floats") << " of " << at::IntArrayRef(shape);
    corrupt(text.str());
  }

  SavedTensors saved_;
  std::set<std::string> unused_;  // names of tensors
  ShardedState wanted_;
  Dict said_;
  List groups_, states_;
};

/// Reads the members of one parameter's state.
struct StateVisitor {
  Reader& reader;
  std::size_t index;
  const torch::Tensor& parameter;
  std::int64_t all_parameters;
  Dict numbers;
  std::string where = "the state of parameter " + std::to_string(index);

  void operator()(const char* name, auto& number) { reader.number(numbers, where, name, number); }
  void operator()(const char* name, torch::Tensor& tensor, Extent extent, bool needed) {
    tensor = reader.tensor(prefix_of(index) + name, parameter, all_parameters, extent, needed);
  }
  void operator()(const char* name, std::deque<torch::Tensor>& list, Extent extent) {
    std::int64_t count = 0;
    (*this)(name, count);
    list.clear();
    // Even if the count is huge, the first missing tensor ends the loop.
    for (std::int64_t i = 0; i < count; ++i)
      (*this)((std::string(name) + "." + std::to_string(i)).c_str(), list.emplace_back(), extent,
              true);
  }
};

std::int64_t elements(const Optimizer& optimizer) {
  std::int64_t count = 0;
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) count += parameter.numel();
  }
  return count;
}

template <class Fields>
void load_as(Fields, Reader& reader, Optimizer& optimizer) {
  std::vector<typename Fields::Options> options;
  std::vector<std::pair<void*, std::unique_ptr<typename Fields::State>>> states;
  std::size_t parameters = 0;
  for (const auto& group : optimizer.param_groups()) parameters += group.params().size();
  reader.check_counts(optimizer.param_groups().size(), parameters);
  const std::int64_t all_parameters = elements(optimizer);
  for (const auto& group : optimizer.param_groups()) {
    const std::string where = "group " + std::to_string(options.size());
    Dict said = reader.options(options.size());
    auto& mine =
        options.emplace_back(static_cast<const typename Fields::Options&>(group.options()));
    Fields::options(
        mine, [&](const char* name, auto& option) { reader.number(said, where, name, option); });
    reader.check_empty(said, where);
    for (const torch::Tensor& parameter : group.params()) {
      const std::size_t index = states.size();
      states.emplace_back(parameter.unsafeGetTensorImpl(), nullptr);
      if (!reader.has_state(index)) continue;
      auto& state = states.back().second = std::make_unique<typename Fields::State>();
      StateVisitor visitor{reader, index, parameter, all_parameters, reader.state(index)};
      Fields::state(mine, *state, visitor);
      reader.check_empty(visitor.numbers, visitor.where);
      if (const char* wrong = Fields::wrong(mine, *state))
        reader.corrupt(visitor.where + ": " + wrong);
    }
  }
  reader.finish();  // change nothing before all of the file is verified
  for (std::size_t i = 0; i < options.size(); ++i)
    static_cast<typename Fields::Options&>(optimizer.param_groups()[i].options()) = options[i];
  optimizer.state().clear();
  for (auto& [parameter, state] : states) {
    if (state) optimizer.state()[parameter] = std::move(state);
  }
}

}  // namespace

Dict describe(const Optimizer& optimizer) {
  List groups;
  for (const auto& group : optimizer.param_groups()) {
    List shapes;
    for (const torch::Tensor& parameter : group.params()) {
      List shape;
      const auto sharded = sharded_parameter(parameter);
      for (const std::int64_t size : sharded ? at::IntArrayRef(sharded->shape) : parameter.sizes())
        shape.emplace_back(size);
      shapes.emplace_back(std::move(shape));
    }
    groups.emplace_back(std::move(shapes));
  }
  return {{"type", type_name(optimizer)}, {"parameters", std::move(groups)}};
}

namespace {

struct Written {
  NamedTensors tensors;
  std::vector<torch::Tensor> parameters;  // of each of the tensors
  std::map<std::string, std::string> metadata;
};

Written written(const Optimizer& optimizer, bool sharded) {
  List groups, states;
  Written found;
  with_fields(optimizer, [&]<class Fields>(Fields) {
    if (sharded && std::is_same_v<Fields, LbfgsFields>) {
      raise(Error{Errc::InvalidArgument,
                  "the state of torch::optim::LBFGS over a sharded model cannot be saved",
                  "it is not right on rows of parameters: use another optimizer"});
    }
    for (const auto& group : optimizer.param_groups()) {
      const auto& options = static_cast<const typename Fields::Options&>(group.options());
      Dict said;
      Fields::options(options, Writer{said});
      groups.emplace_back(std::move(said));
      for (const torch::Tensor& parameter : group.params()) {
        const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
        if (state == optimizer.state().end()) {
          states.emplace_back();
          continue;
        }
        Dict numbers;
        Fields::state(options, static_cast<const typename Fields::State&>(*state->second),
                      Writer{numbers, &found.tensors, prefix_of(states.size())});
        found.parameters.resize(found.tensors.size(), parameter);
        states.emplace_back(std::move(numbers));
      }
    }
  });
  const Dict said{{"groups", std::move(groups)}, {"state", std::move(states)}};
  found.metadata = {{"format", "pt"}, {kMetadata, to_json(Value(said))}};
  return found;
}

}  // namespace

StagedFile stage_optimizer(const Optimizer& optimizer) {
  const Written found = written(optimizer, /*sharded=*/false);
  return stage_tensors(found.tensors, found.metadata);
}

StagedFile stage_sharded_optimizer(const Optimizer& optimizer, int rank, int world_size) {
  Written found = written(optimizer, /*sharded=*/true);
  ShardedState state;
  for (std::size_t i = 0; i < found.tensors.size(); ++i) {
    auto& [name, tensor] = found.tensors[i];
    const auto sharded = sharded_parameter(found.parameters[i]);
    if (!sharded)
      state.replicated(std::move(name), std::move(tensor));
    else if (sharded->held)
      state.piece(std::move(name), std::move(tensor), sharded->shape, sharded->offset);
  }
  return stage_sharded(state, rank, world_size, std::move(found.metadata));
}

void load_optimizer(const CheckedFiles& checkpoint, const std::string& name, const SavedBy& by,
                    Optimizer& optimizer) {
  Reader reader(checkpoint, name, by);
  const torch::NoGradGuard no_grad;
  with_fields(optimizer, [&](auto fields) { load_as(fields, reader, optimizer); });
}

}  // namespace train::sdk
