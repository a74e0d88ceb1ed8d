// Trains a small language model of bytes (a GPT) on text files, data parallel over the job's
// workers, and says how it would go on.
//   train-run examples/text/job.yaml
#include <train/torch_loop.h>
#include <train/torch_shard.h>
#include <train/train.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace {

namespace fs = std::filesystem;

constexpr std::uintmax_t kTextMax = 1 << 30;  // bytes; each worker holds all of them

// ---- the text

/// Return the bytes of a file, or of all files below a folder whose names have this ending, in the
/// order of their names.
std::string read_texts(const fs::path& path, const std::string& ending) {
  std::vector<fs::path> files;
  if (fs::is_directory(path)) {
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file() && entry.path().extension() == ending)
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
  } else {
    files.push_back(path);
  }
  std::string text;
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    const auto bytes = in ? fs::file_size(file) : 0;
    if (!in || bytes > kTextMax - text.size()) {
      throw train::Failure("invalid_argument", "cannot read '" + file.string() +
                                                   "', or the texts have more than 1 GiB together");
    }
    const std::size_t before = text.size();
    text.resize(before + bytes);
    in.read(text.data() + before, static_cast<std::streamsize>(bytes));
    text.resize(before + static_cast<std::size_t>(in.gcount()));
  }
  return text;
}

/// Row i is `length` + 1 bytes of the text from byte i * `length` on: each but the last one
/// predicts the next.
class Windows : public torch::data::Dataset<Windows, torch::data::TensorExample> {
 public:
  Windows(std::shared_ptr<const std::string> text, std::int64_t length, std::size_t first,
          std::size_t count)
      : text_(std::move(text)), length_(length), first_(first), count_(count) {}
  torch::data::TensorExample get(std::size_t index) override {
    auto bytes = torch::empty({length_ + 1}, torch::kUInt8);
    const auto at = (first_ + index) * static_cast<std::size_t>(length_);
    std::memcpy(bytes.data_ptr(), text_->data() + at, static_cast<std::size_t>(length_ + 1));
    return bytes;
  }
  torch::optional<std::size_t> size() const override { return count_; }

 private:
  std::shared_ptr<const std::string> text_;
  std::int64_t length_;
  std::size_t first_, count_;
};

// ---- the model

struct Shape {
  std::int64_t context = 128, layers = 4, heads = 4, width = 128;
};

struct BlockImpl : torch::nn::Module {
  explicit BlockImpl(const Shape& shape) : heads(shape.heads) {
    using torch::nn::LayerNorm;
    using torch::nn::LayerNormOptions;
    using torch::nn::Linear;
    before_attention =
        register_module("before_attention", LayerNorm(LayerNormOptions({shape.width})));
    in = register_module("in", Linear(shape.width, 3 * shape.width));
    out = register_module("out", Linear(shape.width, shape.width));
    before_mlp = register_module("before_mlp", LayerNorm(LayerNormOptions({shape.width})));
    widen = register_module("widen", Linear(shape.width, 4 * shape.width));
    narrow = register_module("narrow", Linear(4 * shape.width, shape.width));
  }
  /// [batch, length, width] → the same; each place sees itself and what is before it
  torch::Tensor forward(torch::Tensor x) {
    const auto batch = x.size(0), length = x.size(1), width = x.size(2);
    const auto qkv = in(before_attention(x))
                         .view({batch, length, 3, heads, width / heads})
                         .permute({2, 0, 3, 1, 4});
    const auto mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {},
                                                        /*dropout_p=*/0, /*is_causal=*/true);
    x = x + out(mixed.transpose(1, 2).reshape({batch, length, width}));
    return x + narrow(torch::gelu(widen(before_mlp(x))));
  }
  std::int64_t heads;
  torch::nn::LayerNorm before_attention{nullptr}, before_mlp{nullptr};
  torch::nn::Linear in{nullptr}, out{nullptr}, widen{nullptr}, narrow{nullptr};
};
using Block = train::ShardUnit<BlockImpl>;  // TORCH_MODULE(Block), for a model that may be sharded

struct ByteModelImpl : torch::nn::Module {
  explicit ByteModelImpl(const Shape& shape) {
    bytes = register_module("bytes", torch::nn::Embedding(256, shape.width));
    places = register_module("places", torch::nn::Embedding(shape.context, shape.width));
    blocks = register_module("blocks", torch::nn::Sequential());
    for (std::int64_t i = 0; i < shape.layers; ++i) blocks->push_back(Block(shape));
    norm =
        register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width})));
    head = register_module("head", torch::nn::Linear(shape.width, 256));
    for (auto& parameter : parameters())
      if (parameter.dim() > 1) torch::nn::init::normal_(parameter, 0, 0.02);
  }
  /// [batch, length] of bytes as int64 → [batch, length, 256], the score of each next byte
  torch::Tensor forward(const torch::Tensor& text) {
    const auto place = torch::arange(text.size(1), text.options());
    return head(norm(blocks->forward(bytes(text) + places(place))));
  }
  torch::nn::Embedding bytes{nullptr}, places{nullptr};
  torch::nn::Sequential blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(ByteModel);

/// Return the mean loss of each byte of the windows [batch, length + 1] but the first.
template <class Model>
torch::Tensor loss_of(const Model& model, const torch::Tensor& windows) {
  const auto text = windows.to(torch::kInt64);
  const auto scores = model(text.slice(1, 0, -1));
  return torch::nn::functional::cross_entropy(scores.flatten(0, 1), text.slice(1, 1).flatten());
}

// ---- the loop

/// Make a sharded model whole on each rank, so that one rank can use it without the others; a
/// prepared one is whole.
template <class Model>
auto whole(const Model& model) {
  if constexpr (requires { model.whole(); })
    return model.whole();
  else
    return 0;
}

/// Return the mean loss of the held-out windows, of which each rank has its share.
template <class Model>
double evaluate(const Model& model, Windows& held_out) {
  const torch::NoGradGuard no_grad;
  [[maybe_unused]] const auto on_each_rank = whole(model);  // some have a window more
  double loss = 0, windows = 0;
  const train::Share mine = train::even_share(static_cast<std::int64_t>(*held_out.size()));
  for (std::int64_t i = mine.begin; i < mine.end; ++i) {
    const auto window = held_out.get(static_cast<std::size_t>(i)).data;
    const torch::Tensor mean = loss_of(model, window.unsqueeze(0).to(train::device()));
    loss += mean.item<double>();
    ++windows;
  }
  const auto all = train::reduce({{"loss", loss}, {"windows", windows}}, train::Reduce::Sum);
  return all.at("loss").as<double>() / std::max(1.0, all.at("windows").as<double>());
}

/// Return `begin`, and as many bytes as the model adds to it.
template <class Model>
std::string continued(const Model& model, std::string begin, int count, std::int64_t context) {
  const torch::NoGradGuard no_grad;
  for (int i = 0; i < count; ++i) {
    const std::string seen =
        begin.substr(begin.size() - std::min(begin.size(), static_cast<std::size_t>(context)));
    auto text = torch::empty({1, static_cast<std::int64_t>(seen.size())}, torch::kUInt8);
    std::memcpy(text.data_ptr(), seen.data(), seen.size());
    const torch::Tensor scores = model(text.to(train::device(), torch::kInt64))[0][-1];
    begin += static_cast<char>(
        torch::multinomial(torch::softmax(scores / 0.8, 0), 1).item<std::int64_t>());
  }
  return begin;
}

/// Return the type in which matrix products are computed.
torch::Dtype precision_of(const std::string& name) {
  if (name == "float32") return torch::kFloat32;
  if (name == "bfloat16") return torch::kBFloat16;
  if (name == "float16") return torch::kHalf;
  throw train::Failure("invalid_argument",
                       "precision is '" + name + "', give float32, bfloat16 or float16");
}

/// Train what `make` makes of the model: a prepared or a sharded one.
template <class Make>
void train_text(const train::Config& config, const Make& make) {
  const auto number = [&](const char* key, std::int64_t fallback) {
    const auto value = config.get<std::int64_t>(key, fallback);
    if (value < 1 || value > 65536)
      throw train::Failure("invalid_argument", std::string(key) + " must be from 1 to 65536");
    return value;
  };
  const Shape shape{.context = number("context", 128),
                    .layers = number("layers", 4),
                    .heads = number("heads", 4),
                    .width = number("width", 128)};
  if (shape.width % shape.heads != 0)
    throw train::Failure("invalid_argument", "heads must divide width");
  const auto text = std::make_shared<const std::string>(
      read_texts(config.get<std::string>("text"), config.get<std::string>("ending", ".md")));
  const std::size_t windows =
      text->empty() ? 0 : (text->size() - 1) / static_cast<std::size_t>(shape.context);
  const std::size_t held_out = windows / 20 + 1;
  if (windows <= held_out) throw train::Failure("invalid_argument", "the text is too short");
  const auto parts = number("accumulate", 1);  // of a step, one after the other
  const auto global_batch = static_cast<std::size_t>(number("batch_size", 32));
  if (global_batch % static_cast<std::size_t>(parts) != 0)
    throw train::Failure("invalid_argument", "accumulate must divide batch_size");
  const torch::Dtype precision = precision_of(config.get<std::string>("precision", "float32"));
  if (windows - held_out < global_batch)
    throw train::Failure("invalid_argument", "the text has fewer windows than a step needs");
  Windows valid(text, shape.context, windows - held_out, held_out);

  torch::manual_seed(1);
  const auto model = make(ByteModel(shape));
  train::FusedAdamW optimizer(model.parameters(),
                              torch::optim::AdamWOptions(config.get<double>("lr", 1e-3)));
  train::GradScaler scaler({.dtype = precision});  // off, unless it is float16
  train::LrSchedule schedule(optimizer, train::lr::warmup(number("warmup_steps", 20))
                                            .cosine(number("decay_steps", 600), /*end=*/0.1));
  // The loader has a name, so every checkpoint says which windows this epoch has had.
  auto loader = train::prepare_data_loader(
      Windows(text, shape.context, 0, windows - held_out)
          .map(torch::data::transforms::Stack<torch::data::TensorExample>()),
      torch::data::DataLoaderOptions(static_cast<std::size_t>(train::per_worker_batch(
                                         static_cast<int>(global_batch) / static_cast<int>(parts))))
          .drop_last(true),
      {.seed = 1, .drop_last = true, .name = "text"});
  int step = 0;
  if (auto checkpoint = train::get_checkpoint()) {
    checkpoint->load(model, optimizer, scaler, schedule);
    step = checkpoint->metadata().at("step").as<int>();
  }

  const int steps = config.get<int>("steps", 600), every = config.get<int>("report_every", 100);
  const double max_norm = config.get<double>("max_norm", 1);
  std::int64_t skipped = 0;  // steps whose gradients were not finite
  train::StepMeter meter;
  while (step < steps) {
    for (auto& micro : train::accumulate(model, loader, parts)) {
      torch::Tensor loss;
      {
        const train::Autocast autocast(
            {.dtype = precision, .enabled = precision != torch::kFloat32});
        loss = loss_of(model, micro.batch.data);
      }
      meter.add(micro.batch.data.size(0), loss);
      scaler.scale(loss * micro.weight).backward();
      if (!micro.last) continue;
      scaler.unscale(optimizer);
      train::clip_grad_norm(optimizer, max_norm, {.skipped_steps = &skipped});
      if (scaler.step(optimizer)) schedule.step();
      scaler.update();
      optimizer.zero_grad();
      if (++step % every == 0 || step == steps) {
        const train::Dict sums = meter.fields();
        auto checkpoint = train::Checkpoint::from_state(model, optimizer, scaler, schedule);
        checkpoint.set_metadata({{"step", step}});
        train::report({{"step", step},
                       {"loss", sums.at("train_loss").as<double>()},
                       {"val_loss", evaluate(model, valid)},
                       {"lr", schedule.lr()},
                       {"skipped_steps", skipped}},
                      checkpoint);
      }
      if (step == steps) break;
    }
  }
  [[maybe_unused]] const auto on_each_rank = whole(model);
  if (train::get_context().world_rank() == 0) {
    const std::string begin = config.get<std::string>("prompt", "The ");
    std::printf("%s\n",
                continued(model, begin, config.get<int>("continue", 200), shape.context).c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    if (config.get<bool>("sharded", false))
      train_text(config, [](const ByteModel& model) { return train::fully_shard(model); });
    else
      train_text(config, [](const ByteModel& model) { return train::prepare_model(model); });
  });
}
