#include "lib/http/guard.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::string_view kBearer = "Bearer ";

/// Compare in a time that does not depend on where the texts differ.
bool equal_secret(std::string_view given, std::string_view expected) {
  if (given.size() != expected.size() || expected.empty()) return false;
  unsigned difference = 0;
  for (std::size_t i = 0; i < given.size(); ++i)
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected[i]);
  return difference == 0;
}

bool has_bearer(const GuardRules& rules, const HttpRequest& request) {
  const std::string_view given = request.authorization;
  return given.starts_with(kBearer) && equal_secret(given.substr(kBearer.size()), rules.token);
}

bool has_cookie(const GuardRules& rules, const HttpRequest& request) {
  return equal_secret(cookie_value(request.cookie, rules.cookie), rules.token);
}

bool is_our_host(const GuardRules& rules, const HttpRequest& request) {
  if (request.host_repeated) return false;
  const std::string name = host_name_of(request.host);
  return std::find(rules.hosts.begin(), rules.hosts.end(), name) != rules.hosts.end();
}

bool is_our_page(const GuardRules& rules, const HttpRequest& request) {
  if (!request.fetch_site.empty() && request.fetch_site != "same-origin") return false;
  return request.origin == (rules.secure ? "https://" : "http://") + request.host;
}

std::optional<HttpResponse> refuse_change(const GuardRules& rules, const HttpRequest& request,
                                          bool bearer) {
  if (!bearer && !is_our_page(rules, request))
    return problem({Errc::Permission, "the request comes from the page of another site"});
  if (!rules.allow_actions)
    return problem({Errc::Permission, "this dashboard only reads",
                    "start it with --allow-actions to stop runs and take stacks from it"});
  if (!request.body.empty() && !request.content_type.starts_with("application/json"))
    return problem(415, {Errc::InvalidArgument, "the body must be application/json"});
  return std::nullopt;
}

}  // namespace

std::string host_name_of(std::string_view host) {
  std::string_view name = host;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    name = end == host.npos ? std::string_view() : host.substr(1, end - 1);
  } else if (const std::size_t colon = host.find(':'); colon != host.npos) {
    name = host.substr(0, colon);
  }
  std::string lower(name);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::optional<HttpResponse> refuse_request(const GuardRules& rules, const HttpRequest& request,
                                           bool open) {
  if (!is_our_host(rules, request))
    return problem(
        {Errc::Permission,
         fmt::format("the host \"{}\" is not one of this dashboard's", utf8_text(request.host, 64)),
         "add it with --host"});
  const bool change = request.method != HttpMethod::Get && request.method != HttpMethod::Head;
  if (!change && (open || rules.open_read)) return std::nullopt;
  const bool bearer = has_bearer(rules, request);
  if (!bearer && !has_cookie(rules, request))
    return problem({Errc::Unauthenticated, "the token is missing or wrong",
                    "open the link that train-run dashboard has printed"});
  if (change) return refuse_change(rules, request, bearer);
  return std::nullopt;
}

std::optional<HttpResponse> take_token(const GuardRules& rules, const HttpRequest& request) {
  const std::string* given = request.target.query.find("token");
  if (given == nullptr || !request.target.path.empty() || request.method != HttpMethod::Get)
    return std::nullopt;
  if (!is_our_host(rules, request)) return refuse_request(rules, request, true);
  if (!equal_secret(*given, rules.token))
    return problem({Errc::Unauthenticated, "the token is wrong",
                    "open the link that train-run dashboard has printed last"});
  return HttpResponse{
      .status = 303,
      .content_type = "text/plain; charset=utf-8",
      .headers = {
          {"Location", "/"},
          {"Cache-Control", "no-store"},
          {"Set-Cookie", fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict{}", rules.cookie,
                                     rules.token, rules.secure ? "; Secure" : "")}}};
}

}  // namespace train
