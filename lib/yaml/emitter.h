// This file writes values as block-style YAML, for other programs to read: yaml-cpp writes every
// scalar, so that a text of any origin stays one scalar. Readers of YAML 1.1, such as Kubernetes',
// read the same values.
#pragma once

#include <boost/json/value.hpp>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train::yaml {

struct Document {
  std::string comment;  // lines before the document; empty: none
  boost::json::object value;
};

/// Return the documents as one stream. Texts of several lines become literal blocks if these can
/// hold them, else quoted texts. Nothing in it steers a terminal. InvalidArgument: a text is not
/// UTF-8.
Result<std::string> emit(const std::vector<Document>& documents);

}  // namespace train::yaml
