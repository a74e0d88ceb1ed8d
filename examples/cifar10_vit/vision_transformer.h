// A vision transformer (Dosovitskiy et al. 2021) with the defaults of Ray's tutorial: 32x32 images,
// patches of 4, 12 layers, 8 heads, width 384, MLP 768, 10 classes. It has the module tree, initial
// values and arithmetic of torchvision's VisionTransformer.
#pragma once

#include <torch/torch.h>

#include <cmath>

namespace vit {

struct Shape {
  std::int64_t image = 32, patch = 4, layers = 12, heads = 8, width = 384, mlp = 768, classes = 10;
};

/// Maps [batch, tokens, width] to the same shape, with one matrix for query, key and value, and
/// LibTorch's fused attention.
struct SelfAttentionImpl : torch::nn::Module {
  explicit SelfAttentionImpl(const Shape& shape) : heads(shape.heads) {
    in = register_module("in", torch::nn::Linear(shape.width, 3 * shape.width));
    out = register_module("out", torch::nn::Linear(shape.width, shape.width));
    torch::nn::init::xavier_uniform_(in->weight);
    torch::nn::init::zeros_(in->bias);
    torch::nn::init::zeros_(out->bias);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto batch = x.size(0), tokens = x.size(1), width = x.size(2);
    const auto qkv = in(x).view({batch, tokens, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
    const auto mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2]);
    return out(mixed.transpose(1, 2).reshape({batch, tokens, width}));
  }
  std::int64_t heads;
  torch::nn::Linear in{nullptr}, out{nullptr};
};
TORCH_MODULE(SelfAttention);

struct EncoderBlockImpl : torch::nn::Module {
  explicit EncoderBlockImpl(const Shape& shape) {
    const auto norm = torch::nn::LayerNormOptions({shape.width}).eps(1e-6);
    before_attention = register_module("before_attention", torch::nn::LayerNorm(norm));
    attention = register_module("attention", SelfAttention(shape));
    before_mlp = register_module("before_mlp", torch::nn::LayerNorm(norm));
    widen = register_module("widen", torch::nn::Linear(shape.width, shape.mlp));
    narrow = register_module("narrow", torch::nn::Linear(shape.mlp, shape.width));
    for (auto& linear : {widen, narrow}) {
      torch::nn::init::xavier_uniform_(linear->weight);
      torch::nn::init::normal_(linear->bias, 0, 1e-6);
    }
  }
  torch::Tensor forward(torch::Tensor x) {
    x = x + attention(before_attention(x));
    return x + narrow(torch::gelu(widen(before_mlp(x))));
  }
  torch::nn::LayerNorm before_attention{nullptr}, before_mlp{nullptr};
  SelfAttention attention{nullptr};
  torch::nn::Linear widen{nullptr}, narrow{nullptr};
};
TORCH_MODULE(EncoderBlock);

/// [batch, 3, image, image] → [batch, classes]
struct VisionTransformerImpl : torch::nn::Module {
  explicit VisionTransformerImpl(const Shape& shape = {}) {
    const auto patches = (shape.image / shape.patch) * (shape.image / shape.patch);
    embed = register_module(
        "embed", torch::nn::Conv2d(
                     torch::nn::Conv2dOptions(3, shape.width, shape.patch).stride(shape.patch)));
    class_token = register_parameter("class_token", torch::zeros({1, 1, shape.width}));
    positions = register_parameter("positions",
                                   torch::empty({1, patches + 1, shape.width}).normal_(0, 0.02));
    blocks = register_module("blocks", torch::nn::Sequential());
    for (std::int64_t i = 0; i < shape.layers; ++i) blocks->push_back(EncoderBlock(shape));
    norm = register_module(
        "norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({shape.width}).eps(1e-6)));
    head = register_module("head", torch::nn::Linear(shape.width, shape.classes));
    const double deviation = std::sqrt(1.0 / static_cast<double>(3 * shape.patch * shape.patch));
    torch::nn::init::normal_(embed->weight, 0, deviation);
    torch::nn::init::zeros_(embed->bias);
    torch::nn::init::zeros_(head->weight);
    torch::nn::init::zeros_(head->bias);
  }
  torch::Tensor forward(const torch::Tensor& images) {
    const auto patches = embed(images).flatten(2).transpose(1, 2);
    const auto tokens =
        torch::cat({class_token.expand({images.size(0), -1, -1}), patches}, 1) + positions;
    return head(norm(blocks->forward(tokens)).select(1, 0));
  }
  torch::nn::Conv2d embed{nullptr};
  torch::Tensor class_token, positions;
  torch::nn::Sequential blocks{nullptr};
  torch::nn::LayerNorm norm{nullptr};
  torch::nn::Linear head{nullptr};
};
TORCH_MODULE(VisionTransformer);

}  // namespace vit
