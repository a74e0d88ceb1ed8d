// Trains a generator of digits against a discriminator (a DCGAN), data parallel over the job's
// workers: two models and two optimizers, whose states are one checkpoint.
//   train-run examples/dcgan/job.yaml
#include <train/torch.h>
#include <train/train.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

namespace {

constexpr std::int64_t kSide = 28;

// ---- the digits

std::uint32_t big_endian(const char* bytes) {
  std::uint32_t number = 0;
  for (int i = 0; i < 4; ++i) number = number << 8 | static_cast<unsigned char>(bytes[i]);
  return number;
}

/// The pictures of one of MNIST's idx files, as [1, 28, 28] from -1 to 1.
class Digits : public torch::data::Dataset<Digits, torch::data::TensorExample> {
 public:
  explicit Digits(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    char header[16] = {};
    in.read(header, sizeof header);
    const std::int64_t rows = big_endian(header + 4);
    std::error_code failed;
    const auto bytes = std::filesystem::file_size(path, failed);
    const bool fits = in && !failed && big_endian(header) == 0x803 &&
                      big_endian(header + 8) == kSide && big_endian(header + 12) == kSide &&
                      bytes == sizeof header + static_cast<std::uint64_t>(rows * kSide * kSide);
    if (!fits || rows == 0)
      throw train::Failure("invalid_argument",
                           "'" + path + "' is no whole idx file of pictures of 28 x 28 pixels");
    pixels_ = torch::empty({rows, 1, kSide, kSide}, torch::kUInt8);
    in.read(static_cast<char*>(pixels_.data_ptr()), rows * kSide * kSide);
    if (!in) throw train::Failure("io", "cannot read '" + path + "'");
  }
  torch::data::TensorExample get(std::size_t index) override {
    return pixels_[static_cast<std::int64_t>(index)].to(torch::kFloat32).div_(127.5).sub_(1);
  }
  torch::optional<std::size_t> size() const override {
    return static_cast<std::size_t>(pixels_.size(0));
  }

 private:
  torch::Tensor pixels_;  // shared by the copies
};

// ---- the models

using torch::nn::BatchNorm2d;
using torch::nn::Conv2d;
using torch::nn::Conv2dOptions;
using torch::nn::ConvTranspose2d;
using torch::nn::ConvTranspose2dOptions;

/// The weights of Radford et al. 2016.
void begin_small(torch::nn::Module& module) {
  const torch::NoGradGuard no_grad;
  for (auto& item : module.named_parameters()) {
    if (item.value().dim() > 1) item.value().normal_(0, 0.02);
  }
}

/// [batch, latent, 1, 1] → [batch, 1, 28, 28]
struct GeneratorImpl : torch::nn::Module {
  GeneratorImpl(std::int64_t latent, std::int64_t features) {
    const auto layer = [](std::int64_t from, std::int64_t to, std::int64_t kernel) {
      return ConvTranspose2dOptions(from, to, kernel).bias(false);
    };
    layers = register_module(
        "layers",
        torch::nn::Sequential(
            ConvTranspose2d(layer(latent, 4 * features, 7)), BatchNorm2d(4 * features),
            torch::nn::ReLU(),
            ConvTranspose2d(layer(4 * features, 2 * features, 4).stride(2).padding(1)),
            BatchNorm2d(2 * features), torch::nn::ReLU(),
            ConvTranspose2d(layer(2 * features, 1, 4).stride(2).padding(1)), torch::nn::Tanh()));
    begin_small(*this);
  }
  torch::Tensor forward(const torch::Tensor& noise) { return layers->forward(noise); }
  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Generator);

/// [batch, 1, 28, 28] → [batch], how real each looks
struct DiscriminatorImpl : torch::nn::Module {
  explicit DiscriminatorImpl(std::int64_t features) {
    const auto leaky = [] {
      return torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2));
    };
    layers = register_module(
        "layers",
        torch::nn::Sequential(
            Conv2d(Conv2dOptions(1, features, 4).stride(2).padding(1)), leaky(),
            Conv2d(Conv2dOptions(features, 2 * features, 4).stride(2).padding(1).bias(false)),
            BatchNorm2d(2 * features), leaky(), Conv2d(Conv2dOptions(2 * features, 1, 7))));
    begin_small(*this);
  }
  torch::Tensor forward(const torch::Tensor& pictures) {
    return layers->forward(pictures).flatten();
  }
  torch::nn::Sequential layers{nullptr};
};
TORCH_MODULE(Discriminator);

/// Return the loss of scores that should all say `real`.
torch::Tensor loss_of(const torch::Tensor& scores, bool real) {
  return torch::binary_cross_entropy_with_logits(scores, torch::full_like(scores, real ? 1 : 0));
}

/// Write pictures from -1 to 1, [n, 1, 28, 28], side by side as a PGM file.
void write_pictures(const std::string& path, const torch::Tensor& pictures) {
  const auto row = pictures.squeeze(1).permute({1, 0, 2}).reshape({kSide, -1});
  const auto pixels = ((row + 1) * 127.5).to(torch::kCPU, torch::kUInt8).contiguous();
  std::ofstream out(path, std::ios::binary);
  out << "P5\n" << pixels.size(1) << ' ' << kSide << "\n255\n";
  out.write(static_cast<const char*>(pixels.const_data_ptr()), pixels.numel());
}

// ---- the loop

void train_gan(const train::Config& config) {
  const auto latent = config.get<std::int64_t>("latent", 64);
  const auto features = config.get<std::int64_t>("features", 32);
  const auto seed = static_cast<std::uint64_t>(config.get<std::int64_t>("seed", 1));
  torch::manual_seed(seed);
  auto generator = train::prepare_model(Generator(latent, features));
  auto discriminator = train::prepare_model(Discriminator(features));
  const auto adam = torch::optim::AdamOptions(config.get<double>("lr", 2e-4)).betas({0.5, 0.999});
  torch::optim::Adam generator_steps(generator->parameters(), adam);
  torch::optim::Adam discriminator_steps(discriminator->parameters(), adam);
  auto loader = train::prepare_data_loader(
      Digits(config.get<std::string>("digits"))
          .map(torch::data::transforms::Stack<torch::data::TensorExample>()),
      torch::data::DataLoaderOptions(
          static_cast<std::size_t>(train::per_worker_batch(config.get<int>("batch_size", 64))))
          .drop_last(true),
      {.seed = seed, .drop_last = true, .name = "digits"});

  const train::Context& context = train::get_context();
  // Each rank makes its own noise. A checkpoint keeps each rank's generator of random numbers.
  torch::manual_seed(seed + 1 + static_cast<std::uint64_t>(context.world_rank()));
  if (auto checkpoint = train::get_checkpoint())
    checkpoint->load(generator, discriminator, generator_steps, discriminator_steps);
  const auto noise = [&](std::int64_t count) {
    return torch::randn({count, latent, 1, 1}).to(train::device());
  };

  const auto epochs = config.get<std::uint64_t>("epochs", 20);
  for (auto epoch = loader.sampler().epoch(); epoch < epochs; ++epoch) {
    double generator_loss = 0, discriminator_loss = 0, steps = 0;
    for (auto& batch : loader) {
      const auto made = generator(noise(batch.data.size(0)));

      discriminator_steps.zero_grad();
      const auto tells_apart =
          loss_of(discriminator(batch.data), true) + loss_of(discriminator(made.detach()), false);
      tells_apart.backward();
      discriminator_steps.step();

      generator_steps.zero_grad();
      const auto is_caught = loss_of(discriminator(made), true);
      {
        // Only the generator learns from this. The discriminator's gradients need no averaging: its
        // next step begins without them.
        const auto quiet = discriminator.no_sync();
        is_caught.backward();
      }
      generator_steps.step();

      discriminator_loss += tells_apart.item<double>();
      generator_loss += is_caught.item<double>();
      ++steps;
    }
    if (steps == 0) continue;
    auto metrics = train::reduce({{"generator_loss", generator_loss / steps},
                                  {"discriminator_loss", discriminator_loss / steps}},
                                 train::Reduce::Mean);
    metrics["epoch"] = epoch;
    const auto folder = config.get<std::string>("pictures", "");
    if (!folder.empty() && context.world_rank() == 0) {
      const torch::NoGradGuard no_grad;
      std::filesystem::create_directories(folder);
      generator->eval();
      write_pictures(folder + "/" + std::to_string(epoch) + ".pgm", generator(noise(10)));
      generator->train();
    }
    train::report(metrics, train::Checkpoint::from_state(generator, discriminator, generator_steps,
                                                         discriminator_steps));
  }
}

}  // namespace

int main(int argc, char** argv) { return train::run(argc, argv, train_gan); }
