// Exchanges texts that are longer than one collective takes, piece by piece.
#pragma once

#include <string>
#include <vector>

namespace train::sdk {

/// Give every rank every rank's text, by rank. All of `ranks` ranks call this together, as they
/// call sdk::all_gather(), with the same name. Throws what that throws.
std::vector<std::string> gather_texts(const std::string& name, const std::string& mine, int ranks);

}  // namespace train::sdk
