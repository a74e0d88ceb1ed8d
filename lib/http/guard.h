// Decides whether a request to the dashboard is allowed, before anything else looks at it. Pure.
//
// - Host must be one of ours, whatever the port (it may be forwarded): a page of another site whose
//   name was made to lead here (DNS rebinding) sends its own name.
// - Everything but public routes needs the token, in the header or the cookie: on a login node,
//   every user reaches loopback.
// - A request that changes something needs actions to be allowed, and comes from our own page
//   (Origin) or from a program that has the token (Bearer).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/http/request.h"
#include "lib/http/response.h"

namespace train {

struct GuardRules {
  std::vector<std::string> hosts = {};  // names and addresses, without ports
  std::string token = {};
  std::string cookie = {};     // the cookie's name
  bool secure = false;         // TLS: the cookie is only for TLS, and the origin is https
  bool open_read = false;      // reading needs no token
  bool allow_actions = false;  // POST
};

/// Return the answer to a request that is not allowed; nothing if it is allowed. `open`: the route
/// needs no token (pages' own files, health).
std::optional<HttpResponse> refuse_request(const GuardRules& rules, const HttpRequest& request,
                                           bool open);

/// Return the answer to "/?token=…": the cookie, and the way to the page; nothing if the request
/// has no token.
std::optional<HttpResponse> take_token(const GuardRules& rules, const HttpRequest& request);

/// Return the host without its port: "localhost", "::1", in lower case.
std::string host_name_of(std::string_view host);

}  // namespace train
