// Checks names and other short texts that Kubernetes would refuse, before it does. In errors,
// `what` says where the text came from: "--name". Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/result.h"

namespace train {

/// A service's name: a label of RFC 1035 (a-z first, then a-z, 0-9 and '-') of at most `bytes_max`.
Result<Unit> check_service_name(std::string_view what, std::string_view text,
                                std::size_t bytes_max = 63);
/// A namespace: a label of RFC 1123.
Result<Unit> check_label(std::string_view what, std::string_view text);
/// The name of a secret or a claim: labels of RFC 1123 with dots between them.
Result<Unit> check_subdomain(std::string_view what, std::string_view text);
/// A container image, as REGISTRY/NAME:TAG@DIGEST.
Result<Unit> check_image(std::string_view what, std::string_view text);
/// A folder in a container: an absolute path of plain characters, not "/".
Result<Unit> check_folder(std::string_view what, std::string_view text);
/// Return key and value of a label KEY=VALUE.
Result<std::pair<std::string, std::string>> parse_label(std::string_view what,
                                                        std::string_view text);

/// Return the service name that is closest to the text: "My_Run" → "my-run". It may be "".
std::string as_service_name(std::string_view text);

}  // namespace train
