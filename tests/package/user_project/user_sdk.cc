// Makes two reports and a checkpoint, with trainrun::sdk only.
#include <train/train.h>

int main(int argc, char** argv) {
  return train::run(argc, argv, [](const train::Config& config) {
    for (int epoch = train::start_epoch(); epoch < config.get<int>("epochs", 2); ++epoch) {
      train::report({{"epoch", epoch}, {"loss", 1.0 / (epoch + 2)}},
                    train::Checkpoint::from_json(train::Dict{{"epoch", epoch}}));
    }
  });
}
