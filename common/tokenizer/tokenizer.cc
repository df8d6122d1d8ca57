#include "common/tokenizer/tokenizer.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/log.h"
#include "common/base/log_fields.h"
#include "common/base/status_macros.h"
#include "common/gguf/model_texts.h"
#include "common/hub/snapshot_directory.h"
#include "common/tokenizer/around_text.h"
#include "common/tokenizer/detokenizer.h"
#include "common/tokenizer/eos_tokens.h"
#include "common/tokenizer/tokenizer_impl.h"

namespace tandem::tokenizer {
namespace {

constexpr int64_t kMaxTokenizerBytes = 256 << 20;  // real files have up to 35 MB
constexpr int64_t kMaxConfigBytes = 16 << 20;      // up to 2 MB

absl::Status Named(const std::string& path, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

ContentId ContentOf(const TandemTokenizer* bridge) {
  std::vector<TokenContent> contents(tandem_tokenizer_vocabulary_size(bridge));
  for (uint32_t id = 0; id < contents.size(); ++id) {
    const TandemToken token = tandem_tokenizer_token(bridge, id);
    contents[id] = {static_cast<TokenKind>(token.kind), ToStringView(token.later)};
  }
  return MakeContentId(contents);
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::Load(const std::string& given) {
  TANDEM_ASSIGN_OR_RETURN(const std::string directory, hub::SnapshotDirectory(given));
  const std::string path = directory + "/tokenizer.json";
  const absl::StatusOr<std::string> json = gguf::ReadModelText(path, kMaxTokenizerBytes);
  if (absl::IsNotFound(json.status()) && !absl::EndsWith(directory, ".gguf")) {
    return absl::NotFoundError(
        absl::StrCat(json.status().message(), "; a model directory must hold a tokenizer.json"));
  }
  TANDEM_RETURN_IF_ERROR(json.status());
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = FromJson(*json);
  if (!tokenizer.ok()) return Named(path, tokenizer.status());
  const std::string config_path = directory + "/tokenizer_config.json";
  TANDEM_ASSIGN_OR_RETURN(const std::string config,
                          gguf::ReadModelTextIfThere(config_path, kMaxConfigBytes));
  if (!config.empty()) {
    TANDEM_RETURN_IF_ERROR(Named(config_path, (*tokenizer)->ReadConfig(config)));
  }
  const std::string map_path = directory + "/special_tokens_map.json";
  TANDEM_ASSIGN_OR_RETURN(const std::string map,
                          gguf::ReadModelTextIfThere(map_path, kMaxConfigBytes));
  if (!map.empty()) TANDEM_RETURN_IF_ERROR(Named(map_path, (*tokenizer)->AddEosToken(map)));
  return tokenizer;
}

absl::Status Tokenizer::ReadConfig(const std::string& config) {
  TANDEM_ASSIGN_OR_RETURN(const std::optional<AroundText> around, ReadAroundText(config));
  if (around.has_value()) TANDEM_RETURN_IF_ERROR(SetAround(*around));
  return AddEosToken(config);
}

absl::Status Tokenizer::AddEosToken(const std::string& json) {
  TANDEM_ASSIGN_OR_RETURN(const std::string name, ReadEosToken(json));
  if (name.empty()) return absl::OkStatus();
  std::optional<uint32_t> id;
  for (uint32_t each = 0; each < impl_->vocabulary_size; ++each) {
    if (TokenBytes(each) != name || (id.has_value() && !IsSpecial(each))) continue;
    id = each;
    if (IsSpecial(each)) break;
  }
  std::vector<uint32_t>& ids = impl_->eos_token_ids;
  if (!id.has_value()) {
    TANDEM_LOG(kWarning) << base::LogFields("eos_token_unknown")
                                .Add("token", base::Excerpt(name))
                                .Add("hint", "tokenizer.json has no such token: it ends no text");
  } else if (std::find(ids.begin(), ids.end(), *id) == ids.end()) {
    ids.push_back(*id);
  }
  return absl::OkStatus();
}

absl::Status Tokenizer::SetAround(const AroundText& around) {
  constexpr char kText[] = "a";
  TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> as_the_tokenizer_says, Encode(kText));
  Impl::Around ids;
  const std::pair<const std::string&, std::vector<uint32_t>&> both[] = {{around.before, ids.before},
                                                                        {around.after, ids.after}};
  for (const auto& [name, id] : both) {
    if (name.empty()) continue;
    // Some files say that a special token is normalized; the crate then calls it by another name.
    TANDEM_ASSIGN_OR_RETURN(id, Encode(name, /*add_special_tokens=*/false));
    if (id.size() != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", name,
                       "\" must stand at an end of every text, but is not a token of "
                       "tokenizer.json"));
    }
  }
  impl_->around = std::move(ids);
  TANDEM_ASSIGN_OR_RETURN(const std::vector<uint32_t> as_the_file_says, Encode(kText));
  if (as_the_file_says != as_the_tokenizer_says) {
    TANDEM_LOG(kWarning) << base::LogFields("tokenizer_config_overrules_tokenizer")
                                .Add("before", around.before)
                                .Add("after", around.after);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Tokenizer::FromJson(std::string_view json) {
  auto impl = std::make_unique<Impl>();
  TandemBuffer error{};
  impl->bridge.reset(tandem_tokenizer_new(Bytes(json), json.size(), &error));
  if (impl->bridge == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("not a tokenizer.json that can be served: ", TakeString(error)));
  }
  impl->vocabulary_size = tandem_tokenizer_vocabulary_size(impl->bridge.get());
  impl->replacement = tandem_tokenizer_replaces_each_byte(impl->bridge.get())
                          ? Replacement::kEachByte
                          : Replacement::kEachPart;
  impl->content = ContentOf(impl->bridge.get());
  for (uint32_t id = 0; id < impl->vocabulary_size; ++id) {
    impl->max_token_bytes = std::max(impl->max_token_bytes, impl->Token(id).later.size);
  }
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

absl::StatusOr<std::vector<uint32_t>> Tokenizer::Encode(std::string_view text,
                                                        bool add_special_tokens,
                                                        bool parse_special_tokens) const {
  const BridgeCall bridge_call;
  TandemIds ids{};
  TandemBuffer error{};
  const bool wrap = add_special_tokens && impl_->around.has_value();
  if (!tandem_tokenizer_encode(impl_->bridge.get(), Bytes(text), text.size(),
                               add_special_tokens && !wrap, parse_special_tokens, &ids, &error)) {
    return absl::InvalidArgumentError(TakeString(error));
  }
  std::vector<uint32_t> result = TakeIds(ids);
  if (wrap) {
    result.insert(result.begin(), impl_->around->before.begin(), impl_->around->before.end());
  }
  if (wrap) result.insert(result.end(), impl_->around->after.begin(), impl_->around->after.end());
  return result;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const uint32_t> ids) const {
  IncrementalDetokenizer detokenizer(*this, {});
  std::string text;
  for (const uint32_t id : ids) {
    absl::StatusOr<std::string> piece = detokenizer.Feed(id);
    if (!piece.ok()) return piece.status();
    text += *piece;
  }
  return text + detokenizer.Finish();
}

size_t Tokenizer::max_token_bytes() const { return impl_->max_token_bytes; }

uint32_t Tokenizer::vocabulary_size() const { return impl_->vocabulary_size; }

bool Tokenizer::IsSpecial(uint32_t id) const {
  return impl_->Token(id).kind == TANDEM_TOKEN_SPECIAL;
}

bool Tokenizer::IsToken(uint32_t id) const { return impl_->Token(id).kind != TANDEM_TOKEN_NONE; }

std::string_view Tokenizer::TokenBytes(uint32_t id) const {
  return ToStringView(impl_->Token(id).later);
}

absl::Span<const uint32_t> Tokenizer::eos_token_ids() const { return impl_->eos_token_ids; }

const std::string& Tokenizer::content_id() const { return impl_->content.id; }

uint32_t Tokenizer::TokenHash(uint32_t id) const {
  return id < impl_->content.hashes.size() ? impl_->content.hashes[id] : 0;
}

absl::Span<const uint32_t> Tokenizer::token_hashes() const { return impl_->content.hashes; }

}  // namespace tandem::tokenizer
