#include "daemon/devices/node_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <sstream>

namespace train {

// Of the words, keep the model's: up to the first with a digit, without what says the maker or the
// series, and without the memory's size and the board's form behind it.
std::string gpu_model(std::string_view name) {
  constexpr std::array<std::string_view, 5> kSeries{"NVIDIA", "Tesla", "Quadro", "GeForce",
                                                    "Graphics"};
  std::istringstream words{std::string(name)};
  std::string model;
  for (std::string word; words >> word;) {
    if (std::find(kSeries.begin(), kSeries.end(), word) != kSeries.end()) continue;
    const bool numbered = word.find_first_of("0123456789") != word.npos;
    if (numbered) word = word.substr(0, word.find('-'));  // "A100-SXM4-80GB"
    model += (model.empty() ? "" : "-") + word;
    if (numbered) break;
  }
  return label_value_of(model);
}

Labels own_labels(std::string_view host, std::string_view arch,
                  const std::vector<std::string>& gpu_names) {
  Labels labels{{"host", label_value_of(host)}, {"arch", label_value_of(arch)}};
  std::set<std::string> models;
  for (const std::string& name : gpu_names) models.insert(gpu_model(name));
  if (models.size() == 1) labels["gpu"] = *models.begin();
  std::erase_if(labels, [](const auto& label) { return label.second.empty(); });
  return labels;
}

Result<Unit> add_labels(Labels& labels, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::string value = equals == text.npos ? "" : text.substr(equals + 1);
    if (!is_label_name(name) || !is_label_value(value))
      return Error{Errc::InvalidArgument,
                   fmt::format("'{}' is not NAME=VALUE, as in rack=r1", text),
                   std::string(kLabelRule)};
    labels[name] = value;
  }
  if (labels.size() <= kLabelsMax) return Unit{};
  return Error{Errc::InvalidArgument,
               fmt::format("{} labels, and a node may have {}", labels.size(), kLabelsMax)};
}

}  // namespace train
