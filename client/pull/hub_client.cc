#include "client/pull/hub_client.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/pull/digest.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"

namespace tandem::client {
namespace {

using hub::HubName;
using Note = std::function<void(const std::string&)>;

constexpr int kMaxRedirects = 8;
constexpr size_t kMaxListBytes = 32 << 20;  // of the files of a revision
constexpr size_t kMaxRefsBytes = 1 << 20;
constexpr int kMaxDepth = 64;  // of its JSON: it also holds the model's config
constexpr absl::Duration kLongestWait = absl::Seconds(30);

// As a path's parts are written in an address; `also` stays as it is.
std::string Escape(absl::string_view text, absl::string_view also) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (absl::ascii_isalnum(byte) || absl::StrContains("-_.~", c) || absl::StrContains(also, c)) {
      result.push_back(c);
    } else {
      constexpr char kDigits[] = "0123456789ABCDEF";
      result += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return result;
}

std::string CleanEtag(absl::string_view etag) {
  absl::ConsumePrefix(&etag, "W/");
  absl::ConsumePrefix(&etag, "\"");
  absl::ConsumeSuffix(&etag, "\"");
  return std::string(etag);
}

// Where the bytes of a reply begin; of a range: what its header says.
absl::StatusOr<int64_t> Offset(const HttpReply& reply, int64_t from) {
  if (reply.status != 206) return 0;
  const std::string range = reply.Header("content-range");  // bytes 5-9/10
  absl::string_view first = range;
  int64_t offset = -1;
  if (absl::ConsumePrefix(&first, "bytes ") &&
      absl::SimpleAtoi(first.substr(0, first.find('-')), &offset) && offset == from) {
    return offset;
  }
  return absl::UnavailableError(
      absl::StrCat("the server sent the range '", range.substr(0, 80), "', not from ", from));
}

template <typename Ask>
auto Again(HubClient& client, int max_failures, const Note& note, Ask ask) -> decltype(ask()) {
  for (int failures = 1;; ++failures) {
    auto answer = ask();
    if (answer.ok() || !MayRetry(answer.status()) || failures == max_failures) return answer;
    const absl::Duration wait = client.Wait(failures);
    note(absl::StrCat(answer.status().message(), "; again in ", absl::FormatDuration(wait)));
    absl::SleepFor(wait);
  }
}

}  // namespace

bool MayRetry(const absl::Status& status) { return absl::IsUnavailable(status); }

HubClient::HubClient(const hub::Settings& settings, const HubName& name)
    : settings_(settings),
      name_(name),
      origin_(Origin(settings.endpoint)),
      http_(settings.timeout) {}

absl::Duration HubClient::Wait(int failures) const {
  const absl::Duration own = absl::Milliseconds(250) * (1 << std::min(failures, 5));
  return std::min(std::max(own, asked_to_wait_), kLongestWait);
}

std::string HubClient::Api(const std::string& rest) const {
  return absl::StrCat(settings_.endpoint, "/api/models/", name_.repository, rest);
}

absl::StatusOr<HttpReply> HubClient::Follow(HttpRequest request, const HttpBody& body) {
  std::map<std::string, std::string> passed;  // what replies on the way said of the file
  for (int redirects = 0; redirects <= kMaxRedirects; ++redirects) {
    const std::string origin = Origin(request.url);
    request.token = origin == origin_ ? settings_.token : "";
    asked_to_wait_ = absl::ZeroDuration();
    TANDEM_ASSIGN_OR_RETURN(HttpReply reply, http_.Send(request, body));
    for (const char* name : {"x-repo-commit", "x-linked-etag", "x-linked-size"}) {
      const std::string value = reply.Header(name);
      if (!value.empty()) passed[name] = value;
    }
    if (int64_t seconds = 0; absl::SimpleAtoi(reply.Header("retry-after"), &seconds)) {
      asked_to_wait_ = absl::Seconds(std::clamp<int64_t>(seconds, 0, 3600));
    }
    const bool is_redirect = reply.status >= 300 && reply.status < 400 && !reply.location.empty();
    // The hub says what a large file is where it redirects to its bytes.
    const bool is_known =
        request.head && passed.contains("x-linked-etag") && passed.contains("x-linked-size");
    if (!is_redirect || is_known) {
      for (const auto& [name, value] : passed) reply.headers.emplace(name, value);
      return reply;
    }
    const std::string next = Origin(reply.location);
    if (next.empty() || (absl::StartsWith(origin, "https:") && !absl::StartsWith(next, "https:"))) {
      return absl::FailedPreconditionError(absl::StrCat(
          origin, " redirects to ",
          next.empty() ? "what is not an address of http" : next + ", which is not encrypted"));
    }
    request.url = reply.location;
  }
  return absl::FailedPreconditionError(
      absl::StrCat(origin_, " redirects more than ", kMaxRedirects, " times"));
}

absl::StatusOr<std::string> HubClient::Text(const std::string& url, size_t max_bytes) {
  std::string text;
  HttpRequest request;
  request.url = url;
  const auto append = [&](const HttpReply&, absl::string_view bytes) -> absl::Status {
    if (text.size() + bytes.size() > max_bytes) {
      return absl::FailedPreconditionError(
          absl::StrCat(url, " says more than ", max_bytes, " bytes"));
    }
    absl::StrAppend(&text, bytes);
    return absl::OkStatus();
  };
  TANDEM_ASSIGN_OR_RETURN(const HttpReply reply, Follow(request, append));
  TANDEM_RETURN_IF_ERROR(Explain(reply, url));
  return text;
}

std::string HubClient::KnownRevisions() {
  const absl::StatusOr<std::string> text = Text(Api("/refs"), kMaxRefsBytes);
  if (!text.ok()) return "";
  const absl::StatusOr<base::JsonValue> json = base::JsonValue::Parse(*text, kMaxDepth);
  if (!json.ok()) return "";
  std::vector<std::string> names;
  for (const char* kind : {"branches", "tags"}) {
    for (const base::JsonValue& one : (*json)[kind].Elements()) {
      constexpr size_t kShown = 8;
      if (names.size() < kShown) names.push_back(one["name"].String().value_or(""));
    }
  }
  return names.empty() ? "" : absl::StrCat("; it has ", absl::StrJoin(names, ", "));
}

absl::Status HubClient::Explain(const HttpReply& reply, const std::string& what) {
  if (reply.status >= 200 && reply.status < 300) return absl::OkStatus();
  const std::string code = reply.Header("x-error-code");
  const std::string& repository = name_.repository;
  const std::string page = absl::StrCat(settings_.endpoint, "/", repository);
  const std::string token =
      settings_.token.empty()
          ? "no token is set (HF_TOKEN, or the file of `hf auth login`)"
          : absl::StrCat("the token of ", settings_.token_source, " may not see it");
  if (code == "GatedRepo") {
    return absl::PermissionDeniedError(
        absl::StrCat(repository, " is gated: accept its terms at ", page,
                     ", and set HF_TOKEN to a token of that account; ", token));
  }
  if (code == "RevisionNotFound") {
    return absl::NotFoundError(
        absl::StrCat(repository, " has no revision ", name_.revision, KnownRevisions()));
  }
  if (code == "EntryNotFound") return absl::NotFoundError(absl::StrCat("there is no ", what));
  if (absl::StrContains(reply.Header("x-error-message"), "Invalid credentials") ||
      (reply.status == 401 && !settings_.token.empty() && code != "RepoNotFound")) {
    return absl::PermissionDeniedError(
        absl::StrCat(settings_.endpoint, " does not take the token",
                     settings_.token.empty() ? "" : absl::StrCat(" of ", settings_.token_source),
                     ": make another one, or take it away"));
  }
  if (code == "RepoNotFound" || reply.status == 401 || reply.status == 404) {
    return absl::NotFoundError(absl::StrCat(settings_.endpoint, " has no model ", repository,
                                            ", or it is private: check the name; ", token));
  }
  if (reply.status == 403) {
    return absl::PermissionDeniedError(absl::StrCat(settings_.endpoint, " refuses ", repository,
                                                    ": ", reply.Header("x-error-message"), "; ",
                                                    token));
  }
  const std::string answer =
      absl::StrCat(Origin(settings_.endpoint), " answered ", reply.status, " to ", what);
  if (reply.status == 429 || reply.status >= 500) return absl::UnavailableError(answer);
  return absl::FailedPreconditionError(
      absl::StrCat(answer, "; HF_ENDPOINT must name a hub, or a mirror of one"));
}

absl::StatusOr<RemoteRevision> HubClient::Revision(int max_failures, const Note& note) {
  const std::string url = Api(absl::StrCat("/revision/", Escape(name_.revision, "")));
  TANDEM_ASSIGN_OR_RETURN(const std::string text, Again(*this, max_failures, note,
                                                        [&] { return Text(url, kMaxListBytes); }));
  const absl::StatusOr<base::JsonValue> json = base::JsonValue::Parse(text, kMaxDepth);
  RemoteRevision revision;
  if (json.ok()) {
    revision.commit = (*json)["sha"].String().value_or("");
    for (const base::JsonValue& file : (*json)["siblings"].Elements()) {
      if (auto name = file["rfilename"].String(); name.has_value()) {
        revision.files.push_back(*std::move(name));
      }
    }
  }
  if (!hub::IsCommit(revision.commit)) {
    return absl::FailedPreconditionError(
        absl::StrCat(url, " names no commit; HF_ENDPOINT must name a hub, or a mirror of one"));
  }
  return revision;
}

absl::StatusOr<RemoteFile> HubClient::File(const std::string& commit, const std::string& file,
                                           const Note& note) {
  HttpRequest request;
  request.url = absl::StrCat(settings_.endpoint, "/", name_.repository, "/resolve/", commit, "/",
                             Escape(file, "/"));
  request.head = true;
  const auto ask = [&]() -> absl::StatusOr<HttpReply> {
    TANDEM_ASSIGN_OR_RETURN(
        HttpReply reply,
        Follow(request, [](const HttpReply&, absl::string_view) { return absl::OkStatus(); }));
    const bool is_redirect = reply.status >= 300 && reply.status < 400;
    if (!is_redirect || reply.Header("x-linked-etag").empty()) {
      TANDEM_RETURN_IF_ERROR(Explain(reply, absl::StrCat(file, " in ", name_.Text())));
    }
    return reply;
  };
  TANDEM_ASSIGN_OR_RETURN(const HttpReply reply, Again(*this, kMaxFailures, note, ask));
  RemoteFile result;
  result.name = file;
  const std::string linked = reply.Header("x-linked-etag");
  result.etag = CleanEtag(linked.empty() ? reply.Header("etag") : linked);
  std::string size = reply.Header("x-linked-size");
  if (size.empty() && reply.status < 300) size = reply.Header("content-length");
  if (reply.Header("x-repo-commit") != commit) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.url, " is not of the commit ", commit,
                     "; HF_ENDPOINT must name a hub, or a mirror of one"));
  }
  // It becomes a file's name, too.
  if (absl::Status status = Digest::For(result.etag, 0).status(); !status.ok()) {
    return absl::FailedPreconditionError(absl::StrCat(request.url, ": ", status.message()));
  }
  if (!absl::SimpleAtoi(size, &result.size) || result.size < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(request.url, ": the hub does not say how large it is"));
  }
  return result;
}

absl::Status HubClient::Fetch(const std::string& commit, const std::string& file, int64_t from,
                              const std::function<absl::Status(int64_t offset)>& begin,
                              const std::function<absl::Status(absl::string_view)>& body) {
  HttpRequest request;
  request.url = absl::StrCat(settings_.endpoint, "/", name_.repository, "/resolve/", commit, "/",
                             Escape(file, "/"));
  request.from = from;
  bool begun = false;
  const auto take = [&](const HttpReply& reply, absl::string_view bytes) -> absl::Status {
    if (!begun) {
      TANDEM_ASSIGN_OR_RETURN(const int64_t offset, Offset(reply, from));
      TANDEM_RETURN_IF_ERROR(begin(offset));
      begun = true;
    }
    return body(bytes);
  };
  TANDEM_ASSIGN_OR_RETURN(const HttpReply reply, Follow(request, take));
  if (reply.status == 403 && !begun && reply.Header("x-error-code").empty()) {
    // Addresses of other servers are signed for a while; the next try gets another one.
    return absl::UnavailableError(absl::StrCat("the server of ", file, " answered 403"));
  }
  if (reply.status == 416) {
    return absl::DataLossError(absl::StrCat(file, " is shorter than the hub says"));
  }
  return Explain(reply, absl::StrCat(file, " in ", name_.Text()));
}

}  // namespace tandem::client
