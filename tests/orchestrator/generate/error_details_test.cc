// What a client's program reads of an error.
#include "orchestrator/generate/error_details.h"

#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/messages/status_details.h"
#include "gtest/gtest.h"
#include "tandem/v1/generation.pb.h"

namespace tandem::orchestrator {
namespace {

absl::Status Detailed(absl::Status status) {
  return WithDetails(std::move(status), *v1::GenerateRequest::descriptor());
}

// The bytes of BadRequest{field_violations: [{field, description}]}, all shorter than 128.
std::string BadRequest(const std::string& field, const std::string& description) {
  const auto bytes = [](char tag, const std::string& value) {
    return std::string{tag, static_cast<char>(value.size())} + value;
  };
  return bytes('\x0a', bytes('\x0a', field) + bytes('\x12', description));
}

TEST(ErrorDetails, AnInvalidFieldIsNamed) {
  for (const auto& [field, rest] :
       {std::pair<std::string, std::string>{"max_tokens", " is 9"},
        {"sampling.logit_bias[3].token", " is 9"},
        {"conversation.messages[1].tool_calls[0].arguments", ": no JSON"},
        {"text", ": not UTF-8"},
        {"text", "'s ids[3] is 9"},
        {"x-request-id", " has 300 bytes"},
        {"prompt", " is missing"}}) {
    const std::string message = absl::StrCat(field, rest);
    const absl::Status status = Detailed(absl::InvalidArgumentError(message));
    EXPECT_EQ(status.message(), message);
    EXPECT_EQ(status.GetPayload(messages::kBadRequestType), absl::Cord(BadRequest(field, message)));
    EXPECT_FALSE(status.GetPayload(messages::kRetryInfoType).has_value());
  }
  const std::string message = "the prompt has 7 tokens";
  EXPECT_EQ(Detailed(absl::InvalidArgumentError(message)).GetPayload(messages::kBadRequestType),
            absl::Cord(BadRequest("prompt", message)));
}

TEST(ErrorDetails, WhatMayBeTriedAgainSaysWhen) {
  for (const absl::Status& status :
       {absl::ResourceExhaustedError("full"), absl::UnavailableError("leaving")}) {
    // RetryInfo{retry_delay: {seconds: 1}}
    EXPECT_EQ(Detailed(status).GetPayload(messages::kRetryInfoType),
              absl::Cord("\x0a\x02\x08\x01"));
  }
  absl::Status known = absl::ResourceExhaustedError("full");
  messages::AddRetryInfo(absl::Seconds(9), known);
  EXPECT_EQ(messages::RetryDelay(Detailed(known)), absl::Seconds(9)) << "whoever knows it says so";
}

TEST(ErrorDetails, OthersHaveNone) {
  for (const absl::Status& status :
       {absl::OkStatus(), absl::InvalidArgumentError("the bytes are no message"),
        absl::InvalidArgumentError(""),
        absl::InvalidArgumentError("tandem.v1.X has field number 9"),
        absl::DeadlineExceededError("late"), absl::InternalError("max_tokens")}) {
    EXPECT_EQ(Detailed(status), status);
    EXPECT_EQ(messages::SerializeDetails(Detailed(status)), "");
  }
}

TEST(ErrorDetails, DoNotTravelWithALongMessage) {
  const auto details = [](size_t size) {
    return messages::SerializeDetails(
        Detailed(absl::InvalidArgumentError("text " + std::string(size - 5, 'x'))));
  };
  EXPECT_NE(details(1024), "");
  EXPECT_EQ(details(1025), "");
}

TEST(ErrorDetails, TravelAsOneStatus) {
  absl::Status status = absl::UnavailableError("x");
  messages::AddRetryInfo(absl::Milliseconds(1500), status);
  EXPECT_EQ(messages::RetryDelay(status), absl::Milliseconds(1500));
  const std::string type(messages::kRetryInfoType);
  const std::string retry("\x0a\x08\x08\x01\x10\x80\xca\xb5\xee\x01", 10);  // 1 s, 500000000 ns
  const std::string any =
      absl::StrCat("\x0a", std::string(1, static_cast<char>(type.size())), type, "\x12\x0a", retry);
  EXPECT_EQ(
      messages::SerializeDetails(status),
      absl::StrCat("\x08\x0e\x12\x01x\x1a", std::string(1, static_cast<char>(any.size())), any));
}

}  // namespace
}  // namespace tandem::orchestrator
