// Early return of an error; this Abseil has no such macros.
//
//   TANDEM_RETURN_IF_ERROR(Validate(options));
//   TANDEM_ASSIGN_OR_RETURN(std::unique_ptr<Model> model, Load(path));
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// In a function that returns absl::Status or absl::StatusOr.
#define TANDEM_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (::absl::Status tandem_status = (expression); !tandem_status.ok()) { \
      return tandem_status;                                                 \
    }                                                                       \
  } while (false)

// `variable` may declare one, or name an existing one. A type with a comma in it needs an alias, or
// auto.
#define TANDEM_ASSIGN_OR_RETURN(variable, expression) \
  TANDEM_ASSIGN_OR_RETURN_AT(TANDEM_STATUS_CONCAT(tandem_result_, __LINE__), variable, expression)

// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define TANDEM_ASSIGN_OR_RETURN_AT(result, variable, expression) \
  auto result = (expression);                                    \
  if (!result.ok()) return std::move(result).status();           \
  variable = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)

#define TANDEM_STATUS_CONCAT(a, b) TANDEM_STATUS_CONCAT_INNER(a, b)
#define TANDEM_STATUS_CONCAT_INNER(a, b) a##b
