// This file parses the XML of S3's answers. Pure.
#pragma once

#include <boost/property_tree/ptree_fwd.hpp>
#include <functional>
#include <string_view>

#include "lib/base/result.h"

namespace train::remote {

/// Let `use` read the tree; it may throw boost::property_tree::ptree_error. Io if `body` is no XML,
/// nests too deep, or lacks what `use` asks for. `what` is for the message: "a list of objects".
Result<Unit> read_s3_xml(std::string_view body, std::string_view what,
                         const std::function<void(const boost::property_tree::ptree&)>& use);

}  // namespace train::remote
